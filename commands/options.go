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
	sinceOption
	waitOption
	sessionOption
	ownerOption
	fullOption
	keepOption

	// withValue are the options with a value.
	withValue = keysOption | limitOption | waitOption | ownerOption | keepOption | sinceOption
	// apart exclude each other.
	apart = keysOption | sharedOption | limitOption
)

// optionWords lists the options in the order of their bits. value is what follows the word.
var optionWords = []struct{ word, value string }{
	{"KEYS", "a number and as many keys"}, {"SHARED", ""}, {"LIMIT", "a number"}, {"SINCE", "a fence"},
	{"WAIT", "a time"}, {"SESSION", ""}, {"OWNER", "a label"}, {"FULL", ""}, {"KEEP", "a time"},
}

// optionCalled returns the option that a word names, in any case, and its place in optionWords; 0
// if there is none.
func optionCalled(word []byte) (o options, at int) {
	for i := range optionWords {
		if isWord(word, optionWords[i].word) {
			return 1 << i, i
		}
	}
	return 0, 0
}

// words returns the words of the options in o.
func (o options) words() (all []string) {
	for i := range optionWords {
		if o&(1<<i) != 0 {
			all = append(all, optionWords[i].word)
		}
	}
	return all
}

// parseOptions parses the options of the command called name, which are some of allowed: in any
// order and case, each at most once. It returns the options that it found.
func (p *argParser) parseOptions(a *args, name string, argv [][]byte, allowed options) (seen options, err error) {
	for len(argv) > 0 && err == nil {
		word, at := optionCalled(argv[0])
		if err := misplaced(word, at, name, argv, seen, allowed); err != nil {
			return seen, err
		}
		argv = argv[1:]
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

// misplaced returns the fault of the option at the beginning of argv, if it has one. at is its
// place in optionWords.
func misplaced(word options, at int, name string, argv [][]byte, seen, allowed options) error {
	text := optionWords[at].word
	switch {
	case word&allowed == 0:
		return errWord(strings.ToUpper(name), string(argv[0]), allowed.words())
	case word&seen != 0:
		return errTwice(text)
	case word&apart != 0 && seen&apart != 0:
		return errSyntax("%s and %s exclude each other", (seen & apart).words()[0], text)
	case word&withValue != 0 && len(argv) == 1:
		return errMissing(text, optionWords[at].value)
	}
	return nil
}

// parseValue parses the value that follows an option word.
func (p *argParser) parseValue(a *args, name string, word options, value []byte) (err error) {
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
func (p *argParser) parseKeys(a *args, name string, argv [][]byte) (rest [][]byte, err error) {
	n, ok := parseCount(argv[0], quorum.MaxKeys-1)
	if !ok {
		return nil, fmt.Errorf("ERR invalid number of keys in '%s' command: want 1 to %d", name, quorum.MaxKeys-1)
	}
	if argv = argv[1:]; len(argv) < n {
		return nil, errSyntax("KEYS %d needs as many keys, but %d follow", n, len(argv))
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
