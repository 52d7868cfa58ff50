package conf

import (
	"strings"
)

// flags is what the command line says.
type flags struct {
	action Action
	file   string
	given  []given
}

// parseFlags reads --name value and --name=value, with one dash or two. A boolean alone means true. It does not
// use package flag, whose errors repeat values, passwords included.
func (l *loader) parseFlags(args []string) flags {
	var f flags
	seen := map[string]bool{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' || arg == "--" {
			l.fault("argument %d is not a flag; settings are given as --name value", i+1)
			continue
		}
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		if f.takeAction(name) {
			if hasText {
				l.fault("--%s takes no value", name)
			}
			continue
		}
		s, ok := lookup(name)
		if !ok && name != "config" {
			l.fault("unknown flag %s; --help lists all", quoteName(name))
			if !hasText && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++ // its value, not a fault of its own
			}
			continue
		}
		if seen[name] {
			l.fault("--%s is given twice", name)
		}
		seen[name] = true
		if !hasText {
			var used int
			if text, used = l.valueAfter(s, args[i+1:]); used < 0 {
				l.fault("--%s needs a value", name)
				continue
			}
			i += used
		}
		if name == "config" {
			f.file = text
			continue
		}
		f.given = append(f.given, given{s, text, name})
	}
	return f
}

// valueAfter finds the value of a flag written without '=' in the arguments after it, and tells how many of them
// it is: 0 for a boolean alone, -1 if it is missing. What follows a boolean and is no flag is its value, if only a wrong one.
func (l *loader) valueAfter(s setting, rest []string) (text string, used int) {
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

// takeAction notes --help, --version and --check; help wins over version, version over check.
func (f *flags) takeAction(name string) bool {
	actions := map[string]Action{"help": Help, "h": Help, "version": Version, "check": Check}
	action, ok := actions[name]
	if !ok {
		return false
	}
	if f.action == Run || action == Help || f.action == Check {
		f.action = action
	}
	return true
}
