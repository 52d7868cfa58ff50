package adopt

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"lockproxy/integration/redistest"
)

func TestParsePatterns(t *testing.T) {
	for text, want := range map[string]string{
		"job:*":            "",
		"*":                "",
		"a, b:* ,c?d":      "",
		`a\*,[a-c]x,[^ab]`: "",
		`[\]a]`:            "",
		`[a\-]`:            "",

		"":        "a pattern is empty: want KEYS patterns, separated by commas",
		"a,,b":    "a pattern is empty: want KEYS patterns, separated by commas",
		`a\`:      `pattern "a\\" ends in a backslash: want a character after it, and not a comma`,
		`a\,b`:    `pattern "a\\" ends in a backslash: want a character after it, and not a comma`,
		"x,[ab":   `pattern "[ab" has a [ without ]: want \[ for the character`,
		`[ab\]`:   `pattern "[ab\\]" has a [ without ]: want \[ for the character`,
		"a[]b":    `pattern "a[]b" has an empty []: want characters in it`,
		"a[^]b":   `pattern "a[^]b" has an empty []: want characters in it`,
		"[a-]":    `pattern "[a-]" has a range without an end in []: want \- for the character`,
		`[a-\]]`:  `pattern "[a-\\]]" has a range without an end in []: want \- for the character`,
		"x[äö]":   `pattern "x[äö]" has other than ASCII in []: want *`,
		"a,[^-b]": "",
	} {
		t.Run(text, func(t *testing.T) {
			got := ""
			if _, err := ParsePatterns(text); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("error %q, want %q", got, want)
			}
		})
	}
}

func TestPatternsOfAllKeys(t *testing.T) {
	for text, want := range map[string]bool{"*": true, "a,*": true, "**": true, "a*": false, "?*": false} {
		t.Run(text, func(t *testing.T) {
			if got := patterns(t, text).All(); got != want {
				t.Errorf("got %v", got)
			}
		})
	}
	if (Patterns{}).Match([]byte("x")) {
		t.Error("no pattern matches a key")
	}
	if got := patterns(t, "a, b*").String(); got != "a,b*" {
		t.Errorf("String is %q", got)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		patterns, key string
		want          bool
	}{
		{"job:*", "job:42", true},
		{"job:*", "job:", true},
		{"job:*", "job", false},
		{"*:lock", "a:b:lock", true},
		{"*:lock", "a:lock:b", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"h?llo", "hello", true},
		{"h?llo", "hllo", false},
		{"[a-c]x", "bx", true},
		{"[c-a]x", "bx", true},
		{"[a-c]x", "dx", false},
		{"[^a-c]x", "dx", true},
		{"[^a-c]x", "ax", false},
		{`[\]a]x`, "]x", true},
		{`[a\-c]`, "b", false},
		{`[a\-c]`, "-", true},
		{"[-a]", "-", true},
		{`a\*b`, "a*b", true},
		{`a\*b`, "axb", false},
		{"x,y", "y", true},
		{"x,y", "x,y", false},
		{"a", "A", false},
		{"a*", "", false},
		{"*a", "\xff\x00a", true},
		{strings.Repeat("*a", 20) + "b", strings.Repeat("a", 60_000), false},
	} {
		t.Run(c.patterns, func(t *testing.T) {
			if got := patterns(t, c.patterns).Match([]byte(c.key)); got != c.want {
				t.Errorf("with %.40q: %v", c.key, got)
			}
		})
	}
}

// FuzzMatch compares Match with the KEYS command of a server.
func FuzzMatch(f *testing.F) {
	for _, seed := range [][2]string{
		{"a*b?c", "axxbyc"}, {"[a-c]*", "b"}, {`\[[^]x`, "[x"}, {`[\a-c]`, "b"}, {"[--9]", "5"},
	} {
		f.Add(seed[0], seed[1])
	}
	s := redistest.Start(f)
	client := redis.NewClient(&redis.Options{Network: s.Network, Addr: s.Addr})
	f.Cleanup(func() { _ = client.Close() })
	f.Fuzz(func(t *testing.T, pattern, key string) {
		p, err := ParsePatterns(pattern)
		if err != nil || key == "" || len(p.list) > 1 {
			return
		}
		pipe := client.TxPipeline()
		pipe.FlushDB(t.Context())
		pipe.Set(t.Context(), key, "", 0)
		found := pipe.Keys(t.Context(), p.String())
		if _, err := pipe.Exec(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := p.Match([]byte(key)), len(found.Val()) == 1; got != want {
			t.Errorf("pattern %q, key %q: %v, Redis says %v", pattern, key, got, want)
		}
	})
}
