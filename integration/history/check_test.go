package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// names returns the checks that found a violation, each once.
func names(found []Violation) string {
	var list []string
	for _, v := range found {
		if !slices.Contains(list, v.Check) {
			list = append(list, v.Check)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestCheckFindsNoViolationInLegalHistories(t *testing.T) {
	for seed := range uint64(50) {
		ops := invent(seed, 2000, 1+int(seed%20), 16)
		if found := Check(ops, Options{}); len(found) > 0 {
			t.Fatalf("seed %d: got %d violations in a legal history, the first: %v, want none", seed, len(found), found[0])
		}
	}
}

// TestCheckScalesToLargeHistories: many clients write 100,000 operations in a minute. The checks
// take 0.12 s for these on two cores; in quadratic time the test would not end.
func TestCheckScalesToLargeHistories(t *testing.T) {
	ops := invent(1, 100_000, 50, 16)
	if found := Check(ops, Options{}); len(found) > 0 {
		t.Fatalf("got %d violations in a legal history, the first: %v, want none", len(found), found[0])
	}
}

const ms = time.Millisecond

// grant returns a LOCK of key k that was granted, with the number of its token, its call and
// return, and the end of its validity.
func grant(client, token int, fence uint64, call, ret, until time.Duration) Op {
	return Op{Client: client, Kind: Lock, Outcome: OK, Key: "k", Token: tokenNumber(token, fence), Fence: fence,
		TTL:  until - call,
		Call: call, Return: ret, Validity: until - call}
}

func tokenNumber(n int, fence uint64) string { return fmt.Sprintf("%016d:%040x", fence, n) }

func on(kind Kind, outcome Outcome, of Op, call, ret, until time.Duration) Op {
	return Op{Client: of.Client, Kind: kind, Outcome: outcome, Key: of.Key, Token: of.Token, TTL: until - call,
		Call: call, Return: ret, Validity: until - call}
}

func unlock(outcome Outcome, of Op, call, ret time.Duration) Op {
	return on(Unlock, outcome, of, call, ret, call)
}

// seeded is a short history of one key, and the checks that must find a violation in it.
type seeded struct {
	name, want string
	ops        []Op
}

// seededViolations returns histories of one key. Most have one violation.
func seededViolations() []seeded {
	first := grant(1, 1, 10, 0, 5*ms, 1000*ms)
	late := func(o Op) Op { o.Outcome = Unknown; return o }
	return []seeded{
		{"one holder after another's UNLOCK", "", []Op{first, unlock(OK, first, 20*ms, 25*ms),
			grant(2, 2, 11, 10*ms, 24*ms, 500*ms)}},
		{"after an UNLOCK without a reply", "", []Op{first, unlock(Unknown, first, 20*ms, 900*ms),
			grant(2, 2, 11, 30*ms, 34*ms, 500*ms)}},
		{"after validity", "", []Op{first, grant(2, 2, 11, 990*ms, 1000*ms, 2000*ms)}},
		{"within validity", "order overlap", []Op{first, grant(2, 2, 11, 900*ms, 999*ms, 2000*ms)}},
		{"long before the end", "order overlap", []Op{first, grant(2, 2, 11, 10*ms, 12*ms, 20*ms)}},
		{"of three, the second short", "order overlap", []Op{first, grant(2, 2, 11, 1000*ms, 1001*ms, 1002*ms),
			grant(3, 3, 12, 1002*ms, 1003*ms, 3000*ms), grant(4, 4, 13, 1500*ms, 1510*ms, 1600*ms)}},
		{"before the UNLOCK was sent", "order overlap",
			[]Op{first, unlock(OK, first, 100*ms, 110*ms), grant(2, 2, 11, 80*ms, 90*ms, 500*ms)}},
		{"within an extension", "order overlap", []Op{first, on(Extend, OK, first, 500*ms, 505*ms, 1500*ms),
			grant(2, 2, 11, 1100*ms, 1110*ms, 2000*ms)}},
		{"before an extension that failed", "", []Op{first, on(Extend, Failed, first, 500*ms, 505*ms, 1500*ms),
			grant(2, 2, 11, 1100*ms, 1110*ms, 2000*ms)}},
		{"extension of a lock that another has had since", "order overlap",
			[]Op{first, grant(2, 2, 11, 1100*ms, 1110*ms, 1120*ms),
				on(Extend, OK, first, 1200*ms, 1205*ms, 1500*ms)}},
		{"extension of a lock that another has had since, and given back", "order overlap",
			[]Op{first, grant(2, 2, 11, 1100*ms, 1110*ms, 2120*ms),
				unlock(OK, grant(2, 2, 11, 0, 0, 0), 1112*ms, 1113*ms), on(Extend, OK, first, 1200*ms, 1205*ms, 1500*ms)}},
		{"late extension of a lock that no other has had", "",
			[]Op{first, on(Extend, OK, first, 1200*ms, 1205*ms, 1500*ms)}},
		{"grant whose reply came after its validity", "",
			[]Op{first, grant(2, 2, 11, 1000*ms, 1400*ms, 1300*ms), grant(3, 3, 12, 1290*ms, 1310*ms, 2000*ms)}},
		{"lower fence", "fence order", []Op{first, unlock(OK, first, 20*ms, 25*ms), grant(2, 2, 9, 30*ms, 34*ms, 500*ms)}},
		{"same fence", "fence order", []Op{first, unlock(OK, first, 20*ms, 25*ms), grant(2, 2, 10, 30*ms, 34*ms, 500*ms)}},
		{"same fence at the same time", "fence order",
			[]Op{first, unlock(OK, first, 20*ms, 25*ms), grant(2, 2, 10, 2*ms, 24*ms, 500*ms)}},
		{"lower fence at the same time", "order", []Op{first, unlock(OK, first, 20*ms, 25*ms),
			grant(2, 2, 9, 2*ms, 24*ms, 500*ms)}},
		{"lower fence, long ago", "fence order", []Op{first, grant(2, 2, 11, 1000*ms, 1010*ms, 1020*ms),
			grant(3, 3, 12, 1030*ms, 1040*ms, 1050*ms),
			grant(4, 4, 11, 1100*ms, 1110*ms, 1150*ms)}},
		{"token twice", "token", []Op{first, grant(2, 1, 11, 1000*ms, 1010*ms, 1020*ms)}},
		{"token of a LOCK that timed out", "token", []Op{late(first), grant(2, 1, 10, 1000*ms, 1010*ms, 1020*ms)}},
		{"token of another LOCK that timed out", "", []Op{late(first), grant(2, 2, 11, 10*ms, 20*ms, 30*ms)}},
		{"token with another number", "token", []Op{{Client: 1, Kind: Lock, Outcome: OK, Key: "k",
			Token: tokenNumber(1, 11), Fence: 10, Return: ms, Validity: 10 * ms}}},
		{"UNLOCK 0 within validity", "lost", []Op{first, unlock(No, first, 20*ms, 25*ms)}},
		{"UNLOCK 0 after it", "", []Op{first, unlock(No, first, 990*ms, 1005*ms)}},
		{"second UNLOCK 0", "", []Op{first, unlock(Failed, first, 10*ms, 15*ms), unlock(No, first, 20*ms, 25*ms)}},
		{"EXTEND 0 within validity", "lost", []Op{first, on(Extend, No, first, 20*ms, 25*ms, 500*ms)}},
		{"EXTEND 0 within an extension", "lost", []Op{first, on(Extend, OK, first, 500*ms, 505*ms, 1500*ms),
			on(Extend, No, first, 1020*ms, 1025*ms, 1500*ms)}},
		{"EXTEND 0 within validity, and another's lock after it", "lost",
			[]Op{first, on(Extend, No, first, 20*ms, 25*ms, 500*ms), grant(2, 2, 11, 10*ms, 22*ms, 500*ms)}},
		{"another's lock before EXTEND 0", "lost order overlap",
			[]Op{first, grant(2, 2, 11, 10*ms, 19*ms, 500*ms), on(Extend, No, first, 20*ms, 25*ms, 500*ms)}},
		{"EXTEND 0 after UNLOCK", "", []Op{first, unlock(OK, first, 10*ms, 15*ms),
			on(Extend, No, first, 20*ms, 25*ms, 500*ms)}},
		{"EXTEND 1 after UNLOCK by another", "order",
			[]Op{first, unlock(OK, first, 10*ms, 15*ms), grant(2, 2, 11, 20*ms, 21*ms, 500*ms),
				on(Extend, OK, first, 30*ms, 35*ms, 500*ms)}},
	}
}

// TestChecksFindSeededViolations puts each violation into a large legal history, at a key of its
// own. The named checks must find it, and no others.
func TestChecksFindSeededViolations(t *testing.T) {
	clean := invent(2, 20_000, 20, 16)
	for _, c := range seededViolations() {
		t.Run(c.name, func(t *testing.T) {
			pictures := 0
			picture := func(key string, html []byte) {
				if pictures++; key != "k" || !strings.Contains(string(html), "LOCK k") {
					t.Errorf("got a picture of %s with %d bytes, want one of k with its LOCK", key, len(html))
				}
			}
			found := Check(slices.Concat(clean[:10_000], c.ops, clean[10_000:]), Options{Picture: picture})
			if got := names(found); got != c.want {
				t.Errorf("found by %q, want %q: %v", got, c.want, found)
			}
			for _, v := range found {
				if v.Key != "k" || v.At == 0 {
					t.Errorf("got violation in %s at %v, want it in k with a time: %v", v.Key, v.At, v)
				}
			}
			if want := strings.Count(c.want, "order"); pictures != want {
				t.Errorf("got %d pictures, want %d", pictures, want)
			}
		})
	}
}

// TestOrderRespectsExpiry: a LOCK that was granted because another's validity had ended cannot
// come before an operation that had returned by then, although the times of both allow that order.
func TestOrderRespectsExpiry(t *testing.T) {
	first, second := grant(1, 1, 10, 0, 5*ms, 1000*ms), grant(2, 2, 11, 10*ms, 1100*ms, 30*ms)
	// The third ends before the first's validity does, and its fence is above the second's.
	third := grant(3, 3, 12, 20*ms, 900*ms, 950*ms)
	if got := names(Linear([]Op{first, second, third}, time.Minute, nil)); got != "order" {
		t.Errorf("found by %q, want order", got)
	}
}

// TestEveryViolationIsNamed: one long hold, or one high fence, does not hide later violations.
func TestEveryViolationIsNamed(t *testing.T) {
	long := grant(1, 1, 10, 0, 5*ms, 1000*ms)
	short, third := grant(2, 2, 20, 10*ms, 15*ms, 20*ms), grant(3, 3, 15, 500*ms, 505*ms, 510*ms)
	fourth := grant(4, 4, 17, 600*ms, 605*ms, 610*ms)
	ops := []Op{long, short, third, fourth}
	if found := Overlaps(ops); len(found) != 3 {
		t.Errorf("got %d overlaps, want 3: %v", len(found), found)
	}
	if found := Fences(ops); len(found) != 2 {
		t.Errorf("got %d violations of fences, want 2 that are lower than 20: %v", len(found), found)
	}
}

// TestUndecidedOrderIsAViolation: a search that ran out of time proves no order.
func TestUndecidedOrderIsAViolation(t *testing.T) {
	var ops []Op
	for i := range 2000 { // all at once: too many orders to try
		ops = append(ops, grant(i, i, uint64(1+i*7919%2003), 0, 5000*ms, 1*ms))
	}
	found := Linear(ops, 10*ms, nil)
	if len(found) != 1 || !strings.Contains(found[0].Text, "not decided") {
		t.Errorf("got %.300v, want one violation: not decided", found)
	}
}

func TestPictureNamesTheCulprit(t *testing.T) {
	ops := invent(3, 10_000, 1, 8)
	var end time.Duration
	for i := range ops {
		end = max(end, ops[i].Return, ops[i].Until())
		ops[i].Key = "k"
	}
	one, two := grant(1, 1, 1e9, end+ms, end+2*ms, end+500*ms), grant(2, 2, 1e9+1, end+3*ms, end+4*ms, end+500*ms)
	after := grant(3, 3, 1e9+2, end+900*ms, end+901*ms, end+902*ms)
	var page string // of all operations it would be ten times as large
	found := Linear(slices.Concat(ops, []Op{after, two, one}), time.Minute,
		func(_ string, html []byte) { page = string(html) })
	if len(found) != 1 || !strings.Contains(found[0].Text, two.String()) || found[0].At != two.Return {
		t.Errorf("got %v, want %v named", found, two.String())
	}
	if !strings.Contains(page, two.Token[:24]) || strings.Contains(page, after.Token[:24]) || len(page) > 500_000 {
		t.Errorf("got a picture of %d bytes, want a short one that ends with the culprit", len(page))
	}
}
