package fake

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/quorum/internal/wire"
)

// The bubble's clock begins with the year 2000.
const (
	now2000, soon, later = "946684800000", "946684801000", "946684802000"
)

func second(n int) time.Time { return time.UnixMilli(946684800000).Add(time.Duration(n) * time.Second) }

// looks are locks, and the commands that make them.
var looks = map[string]struct {
	lines string
	want  Lock
}{
	"exclusive": {
		"SET k " + mine + "0000000000000042me PX 1000",
		Lock{Secret: mine, Fence: 42, Owner: "me", End: second(1)},
	},
	"short":        {"SET k short", Lock{Secret: "short"}},
	"a hash":       {"HSET k f v", Lock{Other: true}},
	"a sorted set": {"ZADD k 1 a", Lock{Other: true}},
	"shared": {
		`ZADD k 0 lockproxy-shared ` + soon + `999 =` + mine + ` -1118482 ` + mine + `S0000000000000000007me
		ZADD k ` + later + `999 =` + theirs + ` -2236963 ` + theirs + `S0000000000000000008 5000 over
		PEXPIREAT k ` + later,
		Lock{Mode: wire.Shared, End: second(2), Holders: []Holder{
			{Secret: mine, Fence: 7, Owner: "me", End: second(1)},
			{Secret: theirs, Fence: 8, End: second(2)},
		}},
	},
	"slots": {
		`ZADD k 128 lockproxy-limit ` + soon + `127 =` + mine + ` ` + now2000 + `003 =` + theirs + `
		ZADD k -1127 ` + mine + `L1270000000000000007me
		ZADD k -1003 ` + theirs + `L0030000000000000008`,
		Lock{Mode: wire.Limited, Holders: []Holder{
			{Secret: theirs, Fence: 8, Slot: 3, End: second(0)},
			{Secret: mine, Fence: 7, Owner: "me", Slot: 127, End: second(1)},
		}},
	},
	"shared in an older version": {
		`ZADD k 0 lockproxy ` + soon + ` ` + mine + ` -` + soon + ` ` + mine + `0000000000000007me`, Lock{Other: true},
	},
}

// TestLooksReadAndWriteLocks: locks of each kind are read, and written ones as well.
func TestLooksReadAndWriteLocks(t *testing.T) {
	for name, test := range looks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New("run")
				c := m.Connect(func() {})
				for line := range strings.Lines(test.lines) {
					words := strings.Fields(line)
					for i := range words {
						words[i] = strings.ReplaceAll(words[i], "_", " ")
					}
					if r := m.ask(t, c, wire.AppendCommand(nil, words...)); r.IsError() {
						t.Fatal(line, r.Text)
					}
				}
				if got, ok := m.Lock("k"); !ok || !reflect.DeepEqual(got, test.want) {
					t.Errorf("%+v, want %+v", got, test.want)
				}
			})
		})
	}
}

// A lock that a test has set lives until the millisecond of its end, included.
func TestLooksSetLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New("run")
		m.SetOther("k")
		if l, ok := m.Lock("k"); !ok || !l.Other {
			t.Errorf("%+v, %v", l, ok)
		}
		m.SetLock("k", mine, 5, "me", second(1))
		if l, _ := m.Lock("k"); l.Secret != mine || l.Fence != 5 || l.Owner != "me" || !l.End.Equal(second(1)) {
			t.Errorf("%+v", l)
		}
		time.Sleep(time.Second)
		if _, ok := m.Lock("k"); !ok {
			t.Error("it is gone in the millisecond of its end")
		}
		time.Sleep(time.Millisecond)
		if _, ok := m.Lock("k"); ok {
			t.Error("it has not ended")
		}
	})
}
