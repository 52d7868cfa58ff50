package adopt

import (
	"fmt"
	"strings"
)

// Patterns are the patterns of adopt-keys, in the language of Redis' KEYS: ?, *, [a-c], [^x] and
// \. The zero value matches no key.
type Patterns struct {
	list []string
	all  bool
}

// ParsePatterns reads patterns that commas separate. It refuses what Redis would read in a way
// that its author cannot mean.
func ParsePatterns(text string) (Patterns, error) {
	var p Patterns
	for pattern := range strings.SplitSeq(text, ",") {
		pattern = strings.TrimSpace(pattern)
		if err := check(pattern); err != nil {
			return Patterns{}, err
		}
		p.list = append(p.list, pattern)
		p.all = p.all || strings.Trim(pattern, "*") == ""
	}
	return p, nil
}

// check returns why a pattern is not one.
func check(pattern string) error {
	if pattern == "" {
		return fmt.Errorf("a pattern is empty: want KEYS patterns, separated by commas")
	}
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; i == len(pattern) {
				return fmt.Errorf("pattern %q ends in a backslash: want a character after it, and not a comma", pattern)
			}
		case '[':
			n := classEnd(pattern[i:])
			if n < 0 {
				return fmt.Errorf("pattern %q has a [ without ]: want \\[ for the character", pattern)
			}
			if err := checkClass(pattern, strings.TrimPrefix(pattern[i+1:i+n], "^")); err != nil {
				return err
			}
			i += n
		}
	}
	return nil
}

// checkClass checks class, which is between [ or [^ and ] in pattern. Redis takes the ] of [a-]
// for the end of a range, and bytes above 127 for negative numbers on some machines.
func checkClass(pattern, class string) error {
	if class == "" {
		return fmt.Errorf("pattern %q has an empty []: want characters in it", pattern)
	}
	for i := 0; i < len(class); i++ {
		switch {
		case class[i] > 127:
			return fmt.Errorf("pattern %q has other than ASCII in []: want *", pattern)
		case class[i] == '\\':
			i++
		case class[i] == '-' && i > 0 && (i+1 == len(class) || class[i+1] == '\\'):
			return fmt.Errorf("pattern %q has a range without an end in []: want \\- for the character", pattern)
		}
	}
	return nil
}

// classEnd returns the index of the ] of the class that begins with class[0], or -1.
func classEnd(class string) int {
	for i := 1; i < len(class); i++ {
		switch class[i] {
		case '\\':
			i++
		case ']':
			return i
		}
	}
	return -1
}

// All reports whether every key is a lock key, because a pattern is *.
func (p Patterns) All() bool { return p.all }

// String returns the patterns as adopt-keys has them.
func (p Patterns) String() string { return strings.Join(p.list, ",") }

// Match reports whether key is a lock key.
func (p Patterns) Match(key []byte) bool {
	if p.all {
		return true
	}
	for _, pattern := range p.list {
		if match(pattern, key) {
			return true
		}
	}
	return false
}

// match matches as Redis' stringmatchlen. After a mismatch it only tries longer texts for the last
// *, which is enough, and takes time len(pattern) * len(key) at most.
func match(pattern string, key []byte) bool {
	p, k, star, retry := 0, 0, -1, 0
	for k < len(key) {
		if p < len(pattern) && pattern[p] == '*' {
			star, retry = p, k
			p++
			continue
		}
		if n, ok := matchOne(pattern[p:], key[k]); ok {
			p += n
			k++
			continue
		}
		if star < 0 {
			return false
		}
		retry++
		p, k = star+1, retry
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne matches c with the first element of pattern, which is n bytes long and is not *.
func matchOne(pattern string, c byte) (n int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		n = classEnd(pattern) + 1
		return n, matchClass(pattern[1:n-1], c)
	case '\\':
		return 2, pattern[1] == c
	}
	return 1, pattern[0] == c
}

// matchClass matches c with a class without its brackets.
func matchClass(class string, c byte) bool {
	not := class[0] == '^'
	if not {
		class = class[1:]
	}
	found := false
	for i := 0; i < len(class); i++ {
		switch {
		case class[i] == '\\' && i+1 < len(class):
			i++
			found = found || class[i] == c
		case i+2 < len(class) && class[i+1] == '-':
			low, high := min(class[i], class[i+2]), max(class[i], class[i+2])
			found = found || low <= c && c <= high
			i += 2
		default:
			found = found || class[i] == c
		}
	}
	return found != not
}
