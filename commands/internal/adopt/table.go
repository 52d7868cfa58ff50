package adopt

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"
	"time"
)

// Options configure a Table.
type Options struct {
	Keys Patterns
	TTL  time.Duration // adopt-ttl; 0: off

	// MaxTTL is max-ttl. A Refresh may ask for less than min-ttl, so ParseTTL sees its ttl only above
	// MaxTTL and below 1 ms.
	MaxTTL time.Duration

	// ParseTTL checks a ttl of the command called name. ms has digits, which are milliseconds,
	// perhaps after a minus. Its error is the reply, without the dash. nil: no limits.
	ParseTTL func(name string, ms []byte) (time.Duration, error)

	// ParseKey checks a key. Its error is the reply, without the dash. nil: no limits.
	ParseKey func(key []byte) (string, error)
}

// Table knows the forms of scripts, and the scripts that were seen. It is safe for concurrent use.
type Table struct {
	opts  Options
	cache *cache
}

// NewTable returns a table that has seen no script.
func NewTable(o Options) *Table { return &Table{opts: o, cache: newCache(mostScripts)} }

// Learn remembers the body of a script that SCRIPT LOAD brings: EVALSHA finds it from now on.
// Parse learns from EVAL by itself.
func (t *Table) Learn(body []byte) { t.learn(body) }

// learn returns the SHA1 and the script of body.
func (t *Table) learn(body []byte) (sum string, s script) {
	hash := sha1.Sum(body)
	sum = hex.EncodeToString(hash[:])
	s, known := t.cache.get(sum)
	if !known {
		s = recognise(string(body))
		t.cache.put(sum, s)
	}
	return sum, s
}

// script is a body that a table has seen.
type script struct {
	row    *row   // nil: no row has its form
	masked string // without a row: its form for the log
}

// recognise finds the row of body.
func recognise(body string) script {
	if form, ok := formOf(body); ok {
		if r := rows()[form]; r != nil {
			return script{row: r}
		}
	}
	return script{masked: masked(body)}
}

// rows returns the row of each form that the table knows. Its first call parses all bodies, which
// takes milliseconds: few deployments need them, and probes start the program every few seconds.
var rows = sync.OnceValue(func() map[string]*row {
	byForm := make(map[string]*row, len(library))
	for i := range library {
		form, ok := formOf(library[i].body)
		if !ok {
			panic("no form: " + library[i].source)
		}
		if byForm[form] == nil { // a test checks that rows of one form do the same
			byForm[form] = &library[i]
		}
	}
	return byForm
})
