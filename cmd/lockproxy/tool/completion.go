package tool

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"lockproxy/conf"
)

// completionCommand is a function because it needs the list that contains it.
func completionCommand() Subcommand {
	return Subcommand{
		Name: "completion", args: "bash|zsh|fish",
		help: "print completions for a shell",
		more: `bash: source <(lockproxy completion bash)
zsh:  lockproxy completion zsh > a directory of $fpath, named _lockproxy
fish: lockproxy completion fish > ~/.config/fish/completions/lockproxy.fish
`,
		Define: func(*flag.FlagSet) func(context.Context, *invocation) int {
			return func(_ context.Context, t *invocation) int {
				shells := map[string]func(io.Writer, []words){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}
				if len(t.args) != 1 || shells[t.args[0]] == nil {
					return t.fail(exitUsage, "needs the name of a shell: bash, zsh or fish")
				}
				shells[t.args[0]](t.stdout, allWords())
				return 0
			}
		},
	}
}

// words are the flags of a subcommand, or of lockproxy itself, whose name is empty.
type words struct {
	name, help string
	flags      []flagWord
}

// flagWord is one flag. file: its value is the name of a file. alone: it takes no value.
type flagWord struct {
	name, help  string
	file, alone bool
}

// allWords makes the words from the tables that --help prints.
func allWords() []words {
	serve := words{flags: []flagWord{{"config", "read settings from a YAML file", true, false},
		{"check", "validate the settings and end", false, true},
		{"version", "print the version and end", false, true}, {"help", "print the help and end", false, true}}}
	for _, s := range conf.Settings() {
		serve.flags = append(serve.flags, flagWord{s.Name, s.Help, namesFile(s.Name), false})
	}
	all := []words{serve}
	for _, s := range Subcommands() {
		set := flag.NewFlagSet(s.Name, flag.ContinueOnError)
		s.Define(set)
		w := words{name: s.Name, help: s.help}
		set.VisitAll(func(f *flag.Flag) {
			w.flags = append(w.flags, flagWord{f.Name, f.Usage, namesFile(f.Name), isSwitch(f)})
		})
		if s.Name == DoctorCommand.Name {
			w.flags = append(w.flags, serve.flags[0])
			w.flags = append(w.flags, serve.flags[len(serve.flags)-len(conf.Settings()):]...)
		}
		w.flags = append(w.flags, flagWord{"help", "print the help and end", false, true})
		all = append(all, w)
	}
	return all
}

// namesFile reports whether the value of a setting is a file's name, judging by the setting's
// name.
func namesFile(name string) bool {
	for _, end := range []string{"-file", "tls-cert", "tls-key", "-ca", "-log"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func completeBash(w io.Writer, all []words) {
	fmt.Fprint(w, "# bash completion of lockproxy, printed by lockproxy completion bash\n_lockproxy() {\n"+
		"\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} list\n\tCOMPREPLY=()\n\tcase "+
		"$before in\n")
	files := map[string]bool{}
	for _, s := range all {
		for _, f := range s.flags {
			files["--"+f.name] = files["--"+f.name] || f.file
		}
	}
	var names []string
	for _, s := range all {
		for _, f := range s.flags {
			if flag := "--" + f.name; files[flag] {
				names, files[flag] = append(names, flag), false
			}
		}
	}
	fmt.Fprintf(w, "\t%s) COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n\tesac\n\tcase ${COMP_WORDS[1]} in\n",
		strings.Join(names, "|"))
	for _, s := range all[1:] {
		fmt.Fprintf(w, "\t%s) list='%s' ;;\n", s.name, strings.Join(append(s.flagNames(), s.extra()...), " "))
	}
	fmt.Fprintf(w, "\t*) list='%s' ;;\n\tesac\n", strings.Join(all[0].flagNames(), " "))
	var commands []string
	for _, s := range all[1:] {
		commands = append(commands, s.name)
	}
	fmt.Fprintf(w, "\tif [ \"$COMP_CWORD\" -eq 1 ]; then list='%s '$list; fi\n", strings.Join(commands, " "))
	fmt.Fprint(w, "\tCOMPREPLY=($(compgen -W \"$list\" -- \"$word\"))\n}\ncomplete -o default -F _lockproxy lockproxy\n")
}

func completeZsh(w io.Writer, all []words) {
	fmt.Fprint(w, "#compdef lockproxy\n# zsh completion of lockproxy, printed by lockproxy completion "+
		"zsh\n_lockproxy() {\n\tlocal -a commands\n\tcommands=(\n")
	for _, s := range all[1:] {
		fmt.Fprintf(w, "\t\t%s\n", quoted(s.name+":"+strings.ReplaceAll(s.help, ":", `\:`)))
	}
	fmt.Fprint(w, "\t)\n\tif (( CURRENT == 2 )) && [[ $words[CURRENT] != -* ]]; then _describe command commands; "+
		"return; fi\n\tcase $words[2] in\n")
	for _, s := range append(all[1:], all[0]) {
		pattern := s.name
		if pattern == "" {
			pattern = "*"
		}
		fmt.Fprintf(w, "\t%s)\n", pattern)
		// _arguments takes the first word for the command, and offers no flags after an unknown
		// one
		if s.name != "" {
			fmt.Fprint(w, "\t\tshift words; (( CURRENT-- ))\n")
		}
		fmt.Fprint(w, "\t\t_arguments -S")
		for _, f := range s.flags {
			spec := "--" + f.name + "[" + strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`).Replace(f.help) + "]"
			if f.file {
				spec += ":file:_files"
			} else if !f.alone {
				spec += ":value:"
			}
			fmt.Fprint(w, " \\\n\t\t\t", quoted(spec))
		}
		if words := s.extra(); words != nil {
			fmt.Fprint(w, " \\\n\t\t\t", quoted("1:word:("+strings.Join(words, " ")+")"))
		}
		if s.name == "run" { // a command and its arguments, which have a completion of their own
			fmt.Fprint(w, " \\\n\t\t\t", quoted("(-)1:command:_command_names -e"), " ", quoted("*::arguments:_normal"))
		}
		fmt.Fprint(w, "\n\t\t;;\n")
	}
	fmt.Fprint(w, "\tesac\n}\n_lockproxy \"$@\"\n")
}

func completeFish(w io.Writer, all []words) {
	fmt.Fprint(w, "# fish completion of lockproxy, printed by lockproxy completion fish\ncomplete -c lockproxy -f\n")
	var names []string
	for _, s := range all[1:] {
		names = append(names, s.name)
		fmt.Fprintf(w, "complete -c lockproxy -n __fish_use_subcommand -a %s -d %s\n", s.name, quoted(s.help))
	}
	for _, s := range all {
		when := "'__fish_seen_subcommand_from " + s.name + "'"
		if s.name == "" {
			when = "'not __fish_seen_subcommand_from " + strings.Join(names, " ") + "'"
		}
		for _, f := range s.flags {
			fmt.Fprintf(w, "complete -c lockproxy -n %s -l %s -d %s", when, f.name, quoted(f.help))
			switch {
			case f.file:
				fmt.Fprint(w, " -r -F")
			case !f.alone:
				fmt.Fprint(w, " -x")
			}
			fmt.Fprintln(w)
		}
		for _, word := range s.extra() {
			fmt.Fprintf(w, "complete -c lockproxy -n %s -a %s\n", when, quoted(word))
		}
	}
}

func (w words) flagNames() []string {
	var names []string
	for _, f := range w.flags {
		names = append(names, "--"+f.name)
	}
	return names
}

// extra returns the possible arguments of a subcommand, if there is a list of them.
func (w words) extra() []string {
	switch w.name {
	case "completion":
		return []string{"bash", "zsh", "fish"}
	case "help":
		var names []string
		for _, s := range Subcommands() {
			names = append(names, s.Name)
		}
		return names
	}
	return nil
}

// quoted returns s as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
