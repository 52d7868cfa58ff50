package tool

import (
	"context"
	"flag"
)

// The subcommands that package main runs: it knows the servers and the version. Here are their
// names and flags, for --help and the completions.

// DoctorCommand is lockproxy doctor. It also takes every setting as a flag.
var DoctorCommand = Subcommand{
	Name: "doctor",
	help: "check the servers that the settings name, and say what to mend",
	more: `It takes the settings of the proxy: flags, --config file, environment. It connects to every master and to the
upstream, and prints a line for each check: ok, warn or fail, the server, what was found, and the remedy. It changes
nothing on any server, and ends within 5 seconds.

exit codes: 0 no failure (there may be warnings), 1 a failure, 2 wrong settings
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		flags.Bool("json", false, "print the findings as JSON")
		return elsewhere("lockproxy doctor takes --json and settings")
	},
}

var helpCommand = Subcommand{
	Name: "help", args: "[COMMAND]",
	help: "print the help of lockproxy, or of a command",
	Define: func(*flag.FlagSet) func(context.Context, *invocation) int {
		return elsewhere("takes the name of one command")
	},
}

var versionCommand = Subcommand{
	Name:   "version",
	help:   "print the version",
	Define: func(*flag.FlagSet) func(context.Context, *invocation) int { return elsewhere("takes no arguments") },
}

// elsewhere is for commands that main runs unless their arguments are wrong.
func elsewhere(fault string) func(context.Context, *invocation) int {
	return func(_ context.Context, t *invocation) int { return t.fail(exitUsage, "%s", fault) }
}

// Help returns the text of the subcommand's --help.
func (s Subcommand) Help() string {
	flags := flag.NewFlagSet(s.Name, flag.ContinueOnError)
	s.Define(flags)
	return s.usage(flags)
}
