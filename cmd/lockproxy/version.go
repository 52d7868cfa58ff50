package main

import (
	"runtime"
	"runtime/debug"
)

// version is set when a release is built: -ldflags "-X main.version=v1.2.3".
var version string

// versionText returns the release, or the module's version and revision, and the version of Go.
func versionText() string {
	text := version
	if info, ok := debug.ReadBuildInfo(); ok && text == "" {
		text = info.Main.Version
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				text += " " + setting.Value[:min(12, len(setting.Value))]
			}
		}
	}
	if text == "" {
		text = "(devel)"
	}
	return text + " " + runtime.Version()
}
