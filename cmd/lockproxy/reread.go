package main

import (
	"maps"
	"slices"

	"go.uber.org/zap"

	"lockproxy/conf"
)

// rereadSettings reads the settings again, from where they were read at the start, and applies the log-level. What else has changed is named:
// it needs a restart. If anything is wrong nothing changes. It also goes on in a new file where the audit log's was moved away.
func rereadSettings(running conf.Config, args, environ []string, logs *logs) {
	if err := logs.audit.reopen(); err != nil {
		logs.Error("audit-log cannot be opened again, it goes on in the old file", zap.Error(err))
	}
	now, err := conf.Load(args, environ)
	if err != nil {
		logs.Error("nothing was reloaded, the settings are not good", zap.Error(err))
		return
	}
	level, err := zap.ParseAtomicLevel(now.LogLevel)
	if err != nil {
		logs.Error("nothing was reloaded, the settings are not good", zap.Error(err))
		return
	}
	if level.Level() != logs.level.Level() {
		logs.Info("log-level changes", zap.Stringer("from", logs.level), zap.Stringer("to", level))
		logs.level.SetLevel(level.Level())
	}
	before, after := running.Values(), now.Values()
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if name != "log-level" && after[name] != before[name] {
			waiting = append(waiting, name)
		}
	}
	if running.AdminToken != now.AdminToken && !slices.Contains(waiting, "admin-token") {
		waiting = append(waiting, "admin-token")
	}
	if len(waiting) > 0 {
		logs.Warn("settings have changed that are read at the start only: restart to use them", zap.Strings("settings", waiting))
	}
}
