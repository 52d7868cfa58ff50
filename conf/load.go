package conf

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const envPrefix = "LOCKPROXY_"

// loader collects settings from their sources. After a fault in one source it still reads the
// others.
type loader struct {
	cfg    Config
	faults []error
	// settings whose value could not be parsed; further faults in them would mislead
	bad    map[string]bool
	any    bool // a file or a setting is given
	unread bool // the file could not be read
}

// Load reads the settings: Default, then the file that --config (or LOCKPROXY_CONFIG) names, then
// the environment, then flags. Then it validates them. args are the flags without the program's
// name. environ has the form of os.Environ; an empty variable counts as not set.
//
// The error holds every fault, one a line, each with the setting's name. With --help or --version
// the Config's Task says so and there is no error.
func Load(args, environ []string) (Config, error) {
	l := &loader{cfg: Default(), bad: map[string]bool{}}
	flags := l.parseFlags(args)
	if flags.action == Help || flags.action == Version {
		l.cfg.Action = flags.action
		return l.cfg, nil
	}
	variables, file := l.parseEnvironment(environ)
	if flags.file != "" {
		file = flags.file
	}
	l.any = file != "" || len(variables)+len(flags.given) > 0
	if file != "" {
		l.readFile(file)
	}
	l.apply(variables)
	l.apply(flags.given)
	l.noteFlagPasswords(flags.given)
	l.cfg.Action = flags.action
	l.cfg.fill()
	l.checkServers()
	l.faults = append(l.faults, l.cfg.validate(l.bad)...)
	return l.cfg, errors.Join(l.faults...)
}

// checkServers refuses settings that name no server, which may be a mistake. Without any setting
// lockproxy runs servers in memory, to try it out.
func (l *loader) checkServers() {
	bad := l.bad["upstream"] || l.bad["masters"] || l.bad["embedded"]
	if !l.any || l.unread || bad || l.cfg.InMemory || !l.cfg.Embedded() {
		return
	}
	l.fault("no server is named: set masters and upstream, or embedded true for servers in memory, to try lockproxy out")
}

// given is a setting in one source. origin is its name in errors: "max-ttl (LOCKPROXY_MAX_TTL)".
type given struct {
	setting settingRow
	text    string
	origin  string
}

func (l *loader) apply(list []given) {
	for _, g := range list {
		l.faultIn(g.setting.name, g.origin, g.setting.valueOf(&l.cfg).set(g.text))
	}
}

// noteFlagPasswords records which flags contain a password. It must run after the flags were
// applied, because they override all other sources.
func (l *loader) noteFlagPasswords(list []given) {
	for _, g := range list {
		secret := g.setting.name == "upstream" && l.cfg.Upstream.Password != "" ||
			g.setting.name == "lock-acl-upstream" && l.cfg.LockACLUpstream.Password != "" ||
			g.setting.name == "admin-token" && l.cfg.AdminToken != "" ||
			g.setting.name == "masters" && slices.ContainsFunc(l.cfg.Masters, func(a Address) bool { return a.Password != "" })
		if secret {
			l.cfg.FlagPasswords = append(l.cfg.FlagPasswords, g.setting.name)
		}
	}
}

// faultIn records an error of a setting, one fault for each joined error.
func (l *loader) faultIn(name, origin string, err error) {
	if err == nil {
		return
	}
	l.bad[name] = true
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			l.faults = append(l.faults, fmt.Errorf("%s: %w", origin, e))
		}
		return
	}
	l.faults = append(l.faults, fmt.Errorf("%s: %w", origin, err))
}

func (l *loader) fault(format string, args ...any) {
	l.faults = append(l.faults, fmt.Errorf(format, args...))
}

// ToolVariables are the variables that subcommands use, without their prefix LOCKPROXY_. A proxy
// ignores them, so no setting may have such a name.
var ToolVariables = []string{"ADDR", "KEY", "TOKEN", "FENCE", "SLOT"}

// serviceLink matches variables that Kubernetes and Docker set for a service called lockproxy or
// lockproxy-*.
var serviceLink = regexp.MustCompile(
	`^LOCKPROXY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

func (l *loader) parseEnvironment(environ []string) (list []given, file string) {
	known := map[string]settingRow{}
	for _, s := range table {
		known[s.environment()] = s
	}
	for _, entry := range environ {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || text == "" {
			continue
		}
		s, ok := known[name]
		switch {
		case ok:
			list = append(list, given{s, text, fmt.Sprintf("%s (%s)", s.name, name)})
		case name == envPrefix+"CONFIG":
			file = text
		case !serviceLink.MatchString(name) && !slices.Contains(ToolVariables, strings.TrimPrefix(name, envPrefix)):
			l.fault("environment variable %s names no setting%s", name, suggest(name, settingRow.environment))
		}
	}
	return list, file
}

// plainName is the form of a setting's name. Errors repeat no other text, because it may be a
// misplaced address with a password.
var plainName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,39}$`)

func quoteName(name string) string {
	if plainName.MatchString(name) {
		return fmt.Sprintf("%q", name)
	}
	return "(not shown)"
}
