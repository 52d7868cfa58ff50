package commands

import (
	"slices"
	"strings"
	"testing"

	"lockproxy/resp"
	"lockproxy/resp/respio"
	"lockproxy/stat"
)

// Each lock command has a hint, in RESP2 and in RESP3, with the arguments of HELP.
func TestHintsAreThoseOfHelp(t *testing.T) {
	hints := Hints()
	if len(hints) != len(stat.Commands) {
		t.Errorf("got %d hints, want %d", len(hints), len(stat.Commands))
	}
	arity := map[string]int64{"lock": -3, "unlock": -3, "extend": -4, "lockinfo": -2, "lockproxy": -2}
	for _, h := range hints {
		for resp3 := range 2 {
			info := parseAll(t, h.Info[resp3])
			set := byte("*~"[resp3])
			if len(info) != 1 || len(info[0].Elems) != 10 || info[0].Elems[0].Text != h.Name ||
				info[0].Elems[1].Int != arity[h.Name] || info[0].Elems[2].Kind != set {
				t.Errorf("%s: got the INFO %q", h.Name, h.Info[resp3])
			}
			docs := parseAll(t, h.Docs[resp3])
			if len(docs) != 2 || docs[0].Text != h.Name || docs[1].Kind != "*%"[resp3] {
				t.Fatalf("%s: got the DOCS %q", h.Name, h.Docs[resp3])
			}
			if got, want := form(field(docs[1], "arguments").Elems, " "), formOfHelp(t, h); got != want {
				t.Errorf("%s: got  %s\nwant %s", h.Name, got, want)
			}
		}
	}
}

// formOfHelp returns the arguments of a command as HELP shows them.
func formOfHelp(t *testing.T, h resp.Hint) string {
	t.Helper()
	if h.Name == "lockproxy" {
		lines := slices.DeleteFunc(slices.Clone(helpLines[1:]), func(s string) bool { return s[0] == ' ' })
		return strings.Join(lines, " | ")
	}
	for _, line := range lockHelp {
		if args, found := strings.CutPrefix(line, strings.ToUpper(h.Name)+" "); found {
			return args
		}
	}
	t.Fatalf("%s: got no line in HELP", h.Name)
	return ""
}

// form writes arguments of COMMAND DOCS as HELP does.
func form(args []respio.Reply, between string) string {
	var all []string
	for _, a := range args {
		text := field(a, "token").Text
		switch kind := field(a, "type").Text; kind {
		case "pure-token":
		case "oneof":
			text = form(field(a, "arguments").Elems, " | ")
		case "block":
			text = form(field(a, "arguments").Elems, " ")
		default:
			text = strings.TrimSpace(text + " <" + field(a, "name").Text + ">")
		}
		for _, flag := range field(a, "flags").Elems {
			text = map[string]string{"optional": "[" + text + "]", "multiple": text + " ..."}[flag.Text]
		}
		all = append(all, text)
	}
	return strings.Join(all, between)
}

// field returns a value of a map.
func field(m respio.Reply, name string) respio.Reply {
	for i := 0; i < len(m.Elems); i += 2 {
		if m.Elems[i].Text == name {
			return m.Elems[i+1]
		}
	}
	return respio.Reply{}
}

// parseAll returns the replies that b consists of.
func parseAll(t *testing.T, b []byte) (all []respio.Reply) {
	t.Helper()
	for len(b) > 0 {
		var reply respio.Reply
		n, err := (&respio.Limits{Line: 99, Text: 99, Elems: 99, Depth: 9, Reply: 9999, RESP3: true}).Parse(b, &reply)
		if err != nil || n == 0 {
			t.Fatalf("%q: got %d, %v", b, n, err)
		}
		all, b = append(all, reply), b[n:]
	}
	return all
}
