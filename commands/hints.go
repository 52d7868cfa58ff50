package commands

import (
	"fmt"
	"slices"
	"strings"

	"lockproxy/resp"
	"lockproxy/resp/respio"
)

// Hints describes the lock commands for replies to COMMAND. It reads the texts of HELP.
func Hints() []resp.Hint {
	var all []resp.Hint
	for i, line := range lockHelp {
		if name, syntax, _ := strings.Cut(line, " "); i > 0 && name != "" {
			summary := strings.TrimSpace(lockHelp[i+1])
			all = append(all, hint(name, syntax, summary[:strings.IndexAny(summary, ".:")]))
		}
	}
	operators := slices.DeleteFunc(slices.Clone(helpLines[1:]), func(s string) bool { return s[0] == ' ' })
	return append(all, hint("LOCKPROXY", strings.Join(operators, " | "), "Commands for operators"))
}

// argument is an argument in COMMAND DOCS, or a group of them.
type argument struct {
	name, kind, token  string
	optional, multiple bool
	args               []argument // of a oneof or a block
}

// hint describes a command whose arguments have the form of HELP: <key> [SHARED | LIMIT <n>].
func hint(name, syntax, summary string) resp.Hint {
	words := strings.Fields(strings.NewReplacer("[", "[ ", "]", " ]").Replace(syntax))
	args, _ := parseArguments(words)
	if args.kind != "block" {
		args.args = []argument{args}
	}
	h := resp.Hint{Name: strings.ToLower(name)}
	arity, key := 2, 1
	for _, a := range args.args[1:] {
		if !a.optional {
			arity++
		}
	}
	if args.args[0].kind != "key" {
		key = 0
	}
	for i := range h.Info {
		w := writer{resp3: i == 1}
		w.info(h.Name, arity, key)
		h.Info[i] = w.b
		w.b = respio.AppendBulk(nil, h.Name)
		w.docs(summary, args.args)
		h.Docs[i] = w.b
	}
	return h
}

// parseArguments parses words up to the end, or to a closing bracket. It returns the rest.
func parseArguments(words []string) (a argument, rest []string) {
	var oneOf, row []argument
	join := func() {
		if a = row[0]; len(row) > 1 {
			a = argument{name: row[0].name, kind: "block", args: row}
		}
		oneOf, row = append(oneOf, a), nil
	}
	for ; len(words) > 0 && words[0] != "]"; words = words[1:] {
		last := len(row) - 1
		switch word := words[0]; {
		case word == "[":
			a, words = parseArguments(words[1:])
			a.optional = true
			row = append(row, a)
		case word == "|":
			join()
		case word == "...":
			row[last].multiple = true
		case word[0] != '<':
			row = append(row, argument{name: strings.ToLower(word), kind: "pure-token", token: word})
		case last >= 0 && row[last].kind == "pure-token" && !row[last].optional:
			row[last].name, row[last].kind = valueOf(word)
		default:
			a.name, a.kind = valueOf(word)
			row = append(row, argument{name: a.name, kind: a.kind})
		}
	}
	if join(); len(oneOf) > 1 {
		a = argument{name: oneOf[0].name, kind: "oneof", args: oneOf}
	}
	return a, words
}

// valueOf returns the name of a value and its type in COMMAND DOCS.
func valueOf(word string) (name, kind string) {
	switch name = strings.Trim(word, "<>"); name {
	case "key", "pattern":
		return name, name
	case "n", "cursor", "fence":
		return name, "integer"
	}
	return name, "string"
}

// writer writes parts of the reply to COMMAND.
type writer struct {
	b     []byte
	resp3 bool
}

// list writes the header of a map (%) of n pairs, or a set (~): in RESP2 they are arrays.
func (w *writer) list(kind byte, n int) {
	switch {
	case w.resp3:
	case kind == '%':
		kind, n = '*', 2*n
	default:
		kind = '*'
	}
	w.b = respio.AppendHeader(w.b, kind, n)
}

func (w *writer) texts(texts ...string) {
	for _, s := range texts {
		w.b = respio.AppendBulk(w.b, s)
	}
}

// info writes an element of COMMAND INFO: name, arity, flags, first key, last key, step. The rest
// is empty: the upstream's ACL does not know lock commands.
func (w *writer) info(name string, arity, key int) {
	w.b = respio.AppendHeader(w.b, '*', 10)
	w.texts(name)
	w.b = fmt.Appendf(w.b, ":-%d\r\n", arity)
	w.list('~', 2)
	w.b = append(w.b, "+noscript\r\n+no_multi\r\n"...)
	for range 3 {
		w.b = respio.AppendHeader(w.b, ':', key)
	}
	for range 4 { // ACL categories, tips, key specifications, subcommands
		w.list('~', 0)
	}
}

// docs writes the map of a command in COMMAND DOCS.
func (w *writer) docs(summary string, args []argument) {
	w.list('%', 4)
	w.texts("summary", summary, "since", "lockproxy", "group", "lockproxy", "arguments")
	w.args(args)
}

func (w *writer) args(args []argument) {
	w.b = respio.AppendHeader(w.b, '*', len(args))
	for _, a := range args {
		var flags []string
		if a.optional {
			flags = append(flags, "+optional\r\n")
		}
		if a.multiple {
			flags = append(flags, "+multiple\r\n")
		}
		pairs := 2
		for _, has := range []bool{a.token != "", len(flags) > 0, len(a.args) > 0} {
			if has {
				pairs++
			}
		}
		w.list('%', pairs)
		w.texts("name", a.name, "type", a.kind)
		if a.token != "" {
			w.texts("token", a.token)
		}
		if len(flags) > 0 {
			w.texts("flags")
			w.list('~', len(flags))
			w.b = append(w.b, strings.Join(flags, "")...)
		}
		if len(a.args) > 0 {
			w.texts("arguments")
			w.args(a.args)
		}
	}
}
