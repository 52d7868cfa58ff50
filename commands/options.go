package commands

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockproxy/quorum"
)

// options is a set of option words.
type options uint16

const (
	keysOption options = 1 << iota
	sharedOption
	limitOption
	waitOption
	sessionOption
	ownerOption
	fullOption
	keepOption
	sinceOption

	// withValue are the options with a value.
	withValue = keysOption | limitOption | waitOption | ownerOption | keepOption | sinceOption
	// apart exclude each other.
	apart = keysOption | sharedOption | limitOption
)

var optionWords = map[string]options{
	"keys": keysOption, "shared": sharedOption, "limit": limitOption, "wait": waitOption,
	"session": sessionOption, "owner": ownerOption, "full": fullOption, "keep": keepOption, "since": sinceOption,
}

// parseOptions parses the options of the command called name, which are some of allowed: in any
// order and case, each at most once. It returns the options that it found.
func (p *parser) parseOptions(a *args, name string, argv [][]byte, allowed options) (seen options, err error) {
	for len(argv) > 0 && err == nil {
		word := optionWords[strings.ToLower(string(argv[0]))]
		argv = argv[1:]
		if word&allowed == 0 || word&seen != 0 || word&withValue != 0 && len(argv) == 0 {
			return seen, errSyntax
		}
		if word&apart != 0 && seen&apart != 0 {
			return seen, errSyntax
		}
		seen |= word
		switch {
		case word == keysOption:
			argv, err = p.parseKeys(a, name, argv)
		case word&withValue != 0:
			err = p.parseValue(a, name, word, argv[0])
			argv = argv[1:]
		}
	}
	a.wait, a.session = seen&waitOption != 0, seen&sessionOption != 0
	a.full = seen&fullOption != 0
	return seen, err
}

// parseValue parses the value that follows an option word.
func (p *parser) parseValue(a *args, name string, word options, value []byte) (err error) {
	switch word {
	case limitOption:
		n, ok := parseCount(value, quorum.MaxLimit)
		if !ok {
			return fmt.Errorf("ERR invalid limit in '%s' command: want 1 to %d", name, quorum.MaxLimit)
		}
		a.mode, a.limit = quorum.Limited, uint8(n)
	case waitOption:
		a.timeout, err = parseTimeout(name, value)
	case ownerOption:
		a.owner, err = parseLabel(value)
	case keepOption:
		a.keep, err = p.parseTTL(name, value)
	case sinceOption:
		if a.since, err = strconv.ParseUint(string(value), 10, 64); err != nil || len(value) > 16 { // as in a token
			err = fmt.Errorf("ERR invalid fence in '%s' command: want 1 to 16 decimal digits", name)
		}
	}
	return err
}

// parseKeys parses n key ..., which follow KEYS, and returns the arguments after them.
func (p *parser) parseKeys(a *args, name string, argv [][]byte) (rest [][]byte, err error) {
	n, ok := parseCount(argv[0], quorum.MaxKeys-1)
	if !ok {
		return nil, fmt.Errorf("ERR invalid number of keys in '%s' command: want 1 to %d", name, quorum.MaxKeys-1)
	}
	if argv = argv[1:]; len(argv) < n {
		return nil, errSyntax
	}
	for _, b := range argv[:n] {
		key, err := p.parseKey(b)
		if err != nil {
			return nil, err
		}
		if key == a.key || slices.Contains(a.keys, key) {
			return nil, errors.New("ERR invalid key: it is named twice")
		}
		a.keys = append(a.keys, key)
	}
	return argv[n:], nil
}

// parseCount parses decimal digits of 1 to most.
func parseCount(b []byte, most int) (n int, ok bool) {
	v, err := strconv.ParseUint(string(b), 10, 64)
	return int(min(v, 1<<31-1)), err == nil && 1 <= v && v <= uint64(most)
}
