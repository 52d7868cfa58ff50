package tool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"lockproxy/conf"
	"lockproxy/plain"
)

// Exit codes of the subcommands, from sysexits(3) if possible. The help of run explains them.
const (
	exitFailed      = 1
	exitUsage       = 64
	exitUnavailable = 69  // no proxy can be reached, or it finds no majority of the masters
	exitLost        = 74  // the lock was lost while the command ran
	exitTaken       = 75  // the lock is taken
	exitDenied      = 77  // the proxy refuses this user
	exitCannotRun   = 126 // the command cannot be run
	exitNotFound    = 127 // there is no such command
)

// Subcommand runs instead of the server if the first argument is its name.
type Subcommand struct {
	Name string
	args string // the arguments after the flags; empty: none are allowed
	help string // one line, lower case
	more string // for its own --help
	// define adds the flags and returns what runs when they are parsed. It returns an exit code.
	Define func(*flag.FlagSet) func(context.Context, *invocation) int
}

// Subcommands returns all of them, in the order of --help.
func Subcommands() []Subcommand {
	return []Subcommand{runCommand, statusCommand, whyCommand, healthCommand, benchCommand, DoctorCommand,
		completionCommand(), helpCommand, versionCommand}
}

// invocation is one run of a subcommand.
type invocation struct {
	name           string
	args           []string // after the flags
	environ        []string
	stdout, stderr io.Writer
}

// say writes a line for people, with the name of the subcommand in front.
func (t *invocation) say(format string, args ...any) {
	fmt.Fprintf(t.stderr, "lockproxy %s: %s\n", t.name, fmt.Sprintf(format, args...))
}

// fail says what went wrong and returns code.
func (t *invocation) fail(code int, format string, args ...any) int {
	t.say(format, args...)
	return code
}

// Run runs the subcommand that args name and returns its exit code. found is false if they begin
// with a flag, or there are none.
func Run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) (code int, found bool) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return 0, false
	}
	var names []string
	for _, s := range Subcommands() {
		if s.Name == args[0] {
			return s.start(ctx, &invocation{name: s.Name, args: args[1:], environ: environ, stdout: stdout, stderr: stderr}),
				true
		}
		names = append(names, s.Name)
	}
	near := plain.Nearest(args[0], names)
	if near == "" { // the argument may be anything, also a misplaced password
		fmt.Fprintln(stderr, "lockproxy: the first argument is neither a flag nor a command; --help lists both")
		return exitUsage, true
	}
	fmt.Fprintf(stderr, "lockproxy: unknown command %q: did you mean %s? --help lists all\n", args[0], near)
	return exitUsage, true
}

// start parses the flags and runs the subcommand.
func (s Subcommand) start(ctx context.Context, t *invocation) int {
	flags := flag.NewFlagSet(s.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run := s.Define(flags)
	switch err := flags.Parse(t.args); {
	case errors.Is(err, flag.ErrHelp):
		io.WriteString(t.stdout, s.usage(flags))
		return 0
	case err != nil:
		return t.fail(exitUsage, "%s --help lists the flags", flagFault(flags, err))
	case s.args == "" && flags.NArg() > 0:
		return t.fail(exitUsage, "takes flags only, not %q", flags.Arg(0))
	}
	t.args = flags.Args()
	return run(ctx, t)
}

// flagFault puts an error of package flag in the form of the proxy's own flags. It ends with a
// mark.
func flagFault(flags *flag.FlagSet, err error) string {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		names := []string{"--help"}
		flags.VisitAll(func(f *flag.Flag) { names = append(names, "--"+f.Name) })
		text = "unknown flag --" + strings.TrimPrefix(name, "-")
		if near := plain.Nearest("--"+strings.TrimPrefix(name, "-"), names); near != "" {
			return text + ": did you mean " + near + "?"
		}
	}
	if found := badValue.FindStringSubmatch(text); found != nil {
		value, name, why := found[1], found[2], found[3]
		if !strings.HasPrefix(why, value) {
			why = value + " " + why
		}
		text = "--" + name + ": " + why
	}
	return text + ";"
}

// badValue is an error of package flag about a value.
var badValue = regexp.MustCompile(`^invalid (?:boolean )?value (".*?") for (?:flag )?-([a-z-]+): (.*)$`)

// usage returns the text of --help.
func (s Subcommand) usage(flags *flag.FlagSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "lockproxy %s: %s\n\nusage: lockproxy %s [--name value ...]", s.Name, s.help, s.Name)
	if s.args != "" {
		b.WriteString(" " + s.args)
	}
	b.WriteString("\n\n")
	flags.VisitAll(func(f *flag.Flag) {
		fmt.Fprintf(&b, "  --%-20s %s", f.Name, f.Usage)
		if f.DefValue != "" && !isSwitch(f) {
			fmt.Fprintf(&b, " (default: %s)", f.DefValue)
		}
		b.WriteByte('\n')
	})
	if s.more != "" {
		b.WriteString("\n" + s.more)
	}
	return b.String()
}

// isSwitch reports whether a flag takes no value.
func isSwitch(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// Usage returns the part of lockproxy --help about subcommands.
func Usage() string {
	var b strings.Builder
	b.WriteString("Commands (default: serve; lockproxy COMMAND --help lists the flags):\n\n")
	for _, s := range Subcommands() {
		fmt.Fprintf(&b, "  %-14s %s\n", s.Name, s.help)
	}
	return b.String()
}

// period is a flag with a time, in the form of the settings.
type period struct{ time.Duration }

// Set implements flag.Value.
func (p *period) Set(s string) (err error) {
	p.Duration, err = conf.ParseDuration(s)
	return err
}

// String implements flag.Value.
func (p *period) String() string {
	if p == nil || p.Duration == 0 {
		return ""
	}
	return plain.Duration(p.Duration)
}

// periodFlag defines a flag with a duration.
func periodFlag(flags *flag.FlagSet, name string, initial time.Duration, usage string) *period {
	p := &period{initial}
	flags.Var(p, name, usage)
	return p
}

// variable returns an environment variable.
func (t *invocation) variable(name string) string {
	for i := len(t.environ) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(t.environ[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// onTerminal reports whether w is a terminal with colours.
func (t *invocation) onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && plain.IsTerminal(file) && t.variable("TERM") != "dumb" && t.variable("NO_COLOR") == ""
}
