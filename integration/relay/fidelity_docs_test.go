package relay

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// COMMAND DOCS describes each command with its group and the syntax of its arguments. So the
// scripts cover every command of the installed server.

// described is a command, or a subcommand with its container's name.
type described struct {
	name  []string // "client", "setname"
	group string
	args  []syntax
}

func (d described) String() string { return strings.Join(d.name, "|") }

// syntax is an argument, or several that form a group.
type syntax struct {
	name, kind, token string
	optional          bool
	multiple          bool
	tokenEach         bool // the token comes before each of multiple
	parts             []syntax
}

// describeCommands asks a server for all its commands. Subcommands replace their container.
func describeCommands(t testing.TB, s *lab.Redis) []described {
	t.Helper()
	var list []described
	for name, doc := range rawMap(s.Do(t, "COMMAND", "DOCS")) {
		fields := rawMap(doc)
		group := lab.Scalar(fields["group"])
		subs := rawMap(fields["subcommands"])
		for sub, subDoc := range subs {
			list = append(list, described{strings.Split(sub, "|"), group, syntaxOf(rawMap(subDoc)["arguments"])})
		}
		if len(subs) == 0 || name == "command" { // COMMAND also works without a subcommand
			list = append(list, described{[]string{name}, group, syntaxOf(fields["arguments"])})
		}
	}
	slices.SortFunc(list, func(a, b described) int { return strings.Compare(a.String(), b.String()) })
	if len(list) < 300 {
		t.Fatalf("COMMAND DOCS: got only %d commands", len(list))
	}
	return list
}

func syntaxOf(frame string) (list []syntax) {
	for _, element := range rawList(frame) {
		m := rawMap(element)
		s := syntax{name: rawText(m["name"]), kind: rawText(m["type"]), token: rawText(m["token"]),
			parts: syntaxOf(m["arguments"])}
		for _, flag := range rawList(m["flags"]) {
			switch rawText(flag) {
			case "optional":
				s.optional = true
			case "multiple":
				s.multiple = true
			case "multiple_token":
				s.tokenEach = true
			}
		}
		if s.token != "*" { // * makes an id from the time
			list = append(list, s)
		}
	}
	return list
}

// rawMap splits a map of RESP2 into raw values by key. It returns nil for "".
func rawMap(frame string) map[string]string {
	m := map[string]string{}
	for pair := range slices.Chunk(rawList(frame), 2) {
		m[rawText(pair[0])] = pair[1]
	}
	return m
}

func rawList(frame string) []string {
	if frame == "" {
		return nil
	}
	return lab.Elements(frame)
}

func rawText(frame string) string {
	if frame == "" {
		return ""
	}
	return lab.Scalar(frame)
}
