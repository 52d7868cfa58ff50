package conf

import (
	"strings"
)

// flags is the parsed command line.
type flags struct {
	action Task
	file   string
	given  []given
	seen   map[string]bool // names of settings, and "config"
}

// parseFlags parses --name value and --name=value, with one dash or two. A boolean without a value
// is true. It does not use package flag, whose errors repeat values and so passwords.
func (l *loader) parseFlags(args []string) flags {
	f := flags{seen: map[string]bool{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' || arg == "--" {
			l.fault("argument %d is not a flag; settings are given as --name value", i+1)
			continue
		}
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if hasText {
			l.parseFlag(&f, name, &text, nil)
		} else {
			i += l.parseFlag(&f, name, nil, args[i+1:])
		}
	}
	return f
}

// parseFlag records one flag in f. text is the value after '=', or nil; then the value is in rest,
// and used is the number of arguments that it takes from there.
func (l *loader) parseFlag(f *flags, name string, text *string, rest []string) (used int) {
	if f.takeAction(name) {
		if text != nil {
			l.fault("--%s takes no value", name)
		}
		return 0
	}
	s, ok := lookup(name)
	if !ok && name != "config" {
		l.unknownFlag(name)
		if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			return 1 // the value of the unknown flag
		}
		return 0
	}
	if f.seen[name] {
		l.fault("--%s is given twice", name)
	}
	f.seen[name] = true
	if text == nil {
		value, n := l.valueAfter(s, rest)
		if n < 0 {
			l.fault("--%s needs a value", name)
			return 0
		}
		text, used = &value, n
	}
	if name != "config" {
		f.given = append(f.given, given{s, *text, name})
		return used
	}
	if f.file = *text; f.file == "" { // for example an unset variable of the shell
		l.fault("--config needs a value")
	}
	return used
}

// unknownFlag records the fault of an unknown flag and suggests the nearest known one.
func (l *loader) unknownFlag(name string) {
	near := suggest("--"+name, func(s settingRow) string { return "--" + s.name })
	if near == "" {
		near = ";"
	}
	l.fault("unknown flag %s%s --help lists all", quoteName(name), near)
}

// valueAfter finds the value of a flag without '='. used is the number of arguments that it takes
// from rest: 0 for a boolean without a value, -1 if the value is missing. An argument after a
// boolean is its value unless it is a flag.
func (l *loader) valueAfter(s settingRow, rest []string) (text string, used int) {
	if s.valueOf != nil {
		if _, isBool := s.valueOf(&l.cfg).(boolean); isBool {
			if len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
				return rest[0], 1
			}
			return "true", 0
		}
	}
	if len(rest) == 0 {
		return "", -1
	}
	return rest[0], 1
}

// takeAction records --help, --version and --check. Help wins over version, version over check.
func (f *flags) takeAction(name string) bool {
	actions := map[string]Task{"help": Help, "h": Help, "version": Version, "check": Check}
	action, ok := actions[name]
	if !ok {
		return false
	}
	if f.action == Run || action == Help || f.action == Check {
		f.action = action
	}
	return true
}
