package history

import (
	"fmt"
	"testing"
	"time"
)

// keyOf returns a key on a master with the token of that number.
func keyOf(n int, label string, left time.Duration) Found {
	return Found{Master: "m1", Key: "k", Value: fmt.Sprintf("%040x%016d%s", n, 10, label), Left: left}
}

func TestStraysBelongToNoLiveLock(t *testing.T) {
	first := grant(1, 1, 10, 0, 5*ms, 1000*ms)
	unanswered := Op{Client: 2, Kind: Lock, Key: "k", Label: "c2-7", TTL: 1000 * ms, Call: 10 * ms, Return: 400 * ms}
	refused := Op{Client: 2, Kind: Lock, Outcome: Failed, Key: "k", Label: "c2-8", TTL: 1000 * ms, Call: 10 * ms,
		Return: 400 * ms}
	for _, c := range []struct {
		name  string
		found Found
		ops   []Op
		at    time.Duration
		want  int
	}{
		{"live", keyOf(1, "", ms), []Op{first}, 900 * ms, 0},
		{"of another token, while live", keyOf(2, "", ms), []Op{first}, 900 * ms, 1},
		{"other key", Found{Key: "j", Value: fmt.Sprintf("%040x", 1)}, []Op{first}, 900 * ms, 1},
		{"never expires", keyOf(1, "", -1), []Op{first}, 900 * ms, 1},
		{"its ttl has passed", keyOf(1, "", ms), []Op{first}, 1100 * ms, 1},
		{"extended", keyOf(1, "", ms), []Op{first, on(Extend, OK, first, 500*ms, 510*ms, 1500*ms)}, 1100 * ms, 0},
		{"perhaps extended", keyOf(1, "", ms), []Op{first, on(Extend, Failed, first, 500*ms, 510*ms, 1500*ms)},
			1100 * ms, 0},
		{"not extended", keyOf(1, "", ms), []Op{first, on(Extend, No, first, 500*ms, 510*ms, 1500*ms)}, 1100 * ms, 1},
		{"unlocked", keyOf(1, "", ms), []Op{first, unlock(OK, first, 20*ms, 30*ms)}, 100 * ms, 1},
		{"unlocked, but no majority answered", keyOf(1, "", ms), []Op{first, unlock(Failed, first, 20*ms, 30*ms)},
			100 * ms, 1},
		{"unlocked, but no reply came", keyOf(1, "", ms), []Op{first, unlock(Unknown, first, 20*ms, 30*ms)}, 100 * ms, 0},
		{"of a LOCK without a reply", keyOf(7, "c2-7", ms), []Op{unanswered}, 1300 * ms, 0},
		{"of a LOCK without a reply, carried out late", keyOf(7, "c2-7", ms), []Op{unanswered}, 3900 * ms, 0},
		{"of a LOCK without a reply, too late", keyOf(7, "c2-7", ms), []Op{unanswered}, 4100 * ms, 1},
		{"of a LOCK that failed", keyOf(8, "c2-8", ms), []Op{refused, unanswered}, 500 * ms, 1},
		{"of a LOCK that failed, without a label", keyOf(8, "", ms),
			[]Op{{Kind: Lock, Outcome: Failed, Key: "k", TTL: 1000 * ms, Return: 400 * ms}}, 500 * ms, 1},
		{"a foreign value", Found{Key: "k", Value: "x"}, []Op{first}, 500 * ms, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Strays([]Found{c.found}, c.ops, c.at, 3000*ms); len(got) != c.want {
				t.Errorf("got %v, want %d strays", got, c.want)
			}
		})
	}
}
