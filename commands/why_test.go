package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockproxy/commands/internal/queue"
	"lockproxy/quorum"
	"lockproxy/stat"
)

var someView = quorum.View{Answered: 2, Info: quorum.Info{Key: "job", Held: 2, Masters: 3,
	TTL:   1500*time.Millisecond + 1,
	Fence: 7, Owner: "me", Holders: 1},
	Masters: []quorum.MasterView{{Holds: true, Has: true, Left: 2 * time.Second}, {Holds: true, Has: true,
		Left: -time.Millisecond},
		{Fault: &quorum.MasterError{Index: 2, Name: "h:10", Err: errors.New("refused the connection")}}}}

// whyFixture is a service whose record has an earlier holder and the present one.
func whyFixture(t *testing.T, change func(*Options)) (*Service, *fakeLocker) {
	t.Helper()
	locker := &fakeLocker{view: someView, masters: threeMasters()}
	client := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7}
	o := Options{Locker: locker, Watcher: locker, Inspector: locker, Gate: &fakeGate{}, KeyPrefix: "lock:",
		MaxTTL: time.Minute,
		Name:   "host 10.0.0.1:6380", Tunable: Tunable{ShowMasters: true, MaxWaiters: 10},
		Holders: func(string) []stat.Holder {
			return []stat.Holder{{Owner: "me", Fence: 7, Client: client, Since: time.UnixMilli(5000),
				TTL: 30 * time.Second},
				{Owner: "before", Fence: 6, Since: time.UnixMilli(1000), Until: time.UnixMilli(4000)}}
		}}
	if change != nil {
		change(&o)
	}
	return New(o), locker
}

func whyOf(t *testing.T, s *Service) stat.Why {
	t.Helper()
	w, err := s.Why(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWhyFindsGrantWithoutOwner: a lock without OWNER has the client's address as its label on the
// masters, and the record has no label.
func TestWhyFindsGrantWithoutOwner(t *testing.T) {
	for label, client := range map[string]net.Addr{
		"10.0.0.9:7": &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 7}, "unix": &net.UnixAddr{Net: "unix"},
	} {
		s, locker := whyFixture(t, func(o *Options) {
			o.Holders = func(string) []stat.Holder {
				return []stat.Holder{{Fence: 7, Client: client, Since: time.UnixMilli(5000), TTL: 30 * time.Second}}
			}
		})
		locker.view.Info.Owner, locker.view.Info.Mode = label, quorum.Shared
		if w := whyOf(t, s); w.Granted != 30_000 || len(w.Last) != 0 {
			t.Errorf("%s: %+v", label, w)
		}
	}
}

// TestWhyJoinsMastersAndRecord: Why has the answers of the masters, and from the record of this
// proxy who was granted the lock, when, and who held it before.
func TestWhyJoinsMastersAndRecord(t *testing.T) {
	s, locker := whyFixture(t, nil)
	w := whyOf(t, s)
	if w.Mode != "exclusive" || w.Held != 2 || w.Masters != 3 || w.Seen != 2 || !w.Quorum || w.Fence != 7 ||
		w.TTL != 1501 {
		t.Errorf("the lock: %+v", w)
	}
	if w.Since != 5000 || w.Granted != 30_000 || w.Client != "10.0.0.9:7" || w.Proxy != "host 10.0.0.1:6380" {
		t.Errorf("the grant: %+v", w)
	}
	if want := (stat.WhyHolder{Fence: 6, Owner: "before", Since: 1000, Until: 4000}); !slices.Equal(w.Last,
		[]stat.WhyHolder{want}) {
		t.Errorf("before: %+v", w.Last)
	}
	want := []stat.WhyMaster{{Master: "h:1", Holds: true, Answered: true, TTL: 2000},
		{Master: "m2@h:2", Holds: true, Answered: true, TTL: -1}, {Master: "h:10", Error: "refused the connection"}}
	if !slices.Equal(w.Voters, want) {
		t.Errorf("masters: %+v", w.Voters)
	}
	// the holder was granted the lock by another proxy, which the record does not know
	locker.view.Info.Fence = 9
	if w := whyOf(t, s); w.Since != 0 || w.Proxy != "" || len(w.Last) != 2 {
		t.Errorf("another proxy's lock: %+v", w)
	}
	s, _ = whyFixture(t, func(o *Options) { o.Holders = nil; o.ShowMasters = false })
	if w := whyOf(t, s); w.Since != 0 || len(w.Last) != 0 || w.Voters[0].Master != "master 1" {
		t.Errorf("without a record: %+v", w)
	}
	if text, err := json.Marshal(whyOf(t, s)); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestWhyKnowsAge: without a record the table of grants knows since when an exclusive lock is
// held.
func TestWhyKnowsAge(t *testing.T) {
	s, _ := whyFixture(t, func(o *Options) { o.Holders = nil })
	s.operators.grants.granted("job", quorum.Token{Fence: 7}, quorum.Exclusive)
	if w := whyOf(t, s); w.Since == 0 || w.Proxy == "" {
		t.Errorf("%+v", w)
	}
}

// adviceCases are views of the masters, and the advice about them.
var adviceCases = []struct {
	name string
	view func(*quorum.View)
	want string
	not  string
}{
	{"held", func(*quorum.View) {}, "LOCKPROXY RELEASE job", "no expiry"},
	{"extended", func(*quorum.View) {}, "longer than its ttl of 30s, so it is being extended", ""},
	{"odd key", func(v *quorum.View) { v.Info.Key = "a b" }, "LOCKPROXY RELEASE 'a b'", ""},
	{"for ever", func(v *quorum.View) { v.Info.TTL = -1; v.Info.Fence = 0 },
		"no expiry, so it does not end by itself", "unless"},
	{"another library", func(v *quorum.View) { v.Info.Fence = 0 }, "It has no fence", ""},
	{"free", func(v *quorum.View) {
		v.Info = quorum.Info{Key: "job", Masters: 3}
		v.Masters[0], v.Masters[1] = quorum.MasterView{}, quorum.MasterView{}
	}, "LOCK can have it", "RELEASE"},
	{"blocked", func(v *quorum.View) {
		v.Info = quorum.Info{Key: "job", Masters: 3}
		v.Masters[0].Holds, v.Masters[1].Holds = false, false
	}, "LOCK cannot have it: it needs 2 of the 3 masters, and 0 are free", "DEL"},
	{"blocked by one, and one is down", func(v *quorum.View) {
		v.Info = quorum.Info{Key: "job", Masters: 3}
		v.Masters[0], v.Masters[1].Holds = quorum.MasterView{}, false
	}, "and 1 are free of other keys with this name.\nTo delete what looks like a lock", "LOCK can have it"},
	{"blocked by readers", func(v *quorum.View) {
		v.Info = quorum.Info{Key: "job", Masters: 3}
		v.Masters[0], v.Masters[1].Holds, v.Masters[1].Mode = quorum.MasterView{}, false, quorum.Shared
	}, "LOCK without SHARED or LIMIT cannot have it", ""},
	{"blocked by another program", func(v *quorum.View) {
		v.Info = quorum.Info{Key: "job", Masters: 3}
		v.Masters[0], v.Masters[1] = quorum.MasterView{}, quorum.MasterView{Has: true, Mode: quorum.Foreign}
	}, "lock:job is another program's key on some of them", "RELEASE"},
	{"uncertain", func(v *quorum.View) { v.Fault = &quorum.NoQuorumError{Answered: 2, N: 3, Needed: 2} },
		"LOCK cannot have it now: it needs 2 of the 3 masters, and 0 are free.\nThis was seen on 2 of 3 masters.",
		"No lock can be granted"},
	{"a full limit", func(v *quorum.View) {
		v.Info.Mode, v.Info.Holders = quorum.Limited, 2
		v.Info.Slots = []stat.Slot{{Slot: 0, TTL: 2000}, {Slot: 1, TTL: 1000}}
	}, "Slot 1 is the first to end, unless it is extended. LOCK with a LIMIT over 2 can", "free it"},
	{"readers", func(v *quorum.View) { v.Info.Mode, v.Info.Holders = quorum.Shared, 2 },
		"To free it while its holders may still work: LOCKPROXY RELEASE job", ""},
	{"kept", func(v *quorum.View) { v.Info.Mode = quorum.Kept }, "To open it earlier: LOCKPROXY RELEASE job",
		"extended"},
	{"foreign", func(v *quorum.View) { v.Info.Mode, v.Info.Type = quorum.Foreign, "hash" },
		"lock:job is a key of type hash that another program wrote on 2 masters", "RELEASE"},
	{"foreign of an unknown type", func(v *quorum.View) { v.Info.Mode = quorum.Foreign }, "DEL lock:job",
		"type  that"},
	{"a remnant", func(v *quorum.View) { v.Masters[0].Holds = false },
		"Something else has this name on 1 master.", ""},
	{"no quorum", func(v *quorum.View) {
		v.Fault, v.Answered, v.Info.Held = &quorum.NoQuorumError{Answered: 1, N: 3, Needed: 2}, 1, 1
	}, "seen on 1 of 3 masters", "RELEASE"},
}

// TestWhyAdvice: the advice fits the state.
func TestWhyAdvice(t *testing.T) {
	for _, tt := range adviceCases {
		t.Run(tt.name, func(t *testing.T) {
			s, locker := whyFixture(t, nil)
			locker.view.Masters = slices.Clone(someView.Masters)
			tt.view(&locker.view)
			w := whyOf(t, s)
			text := strings.Join(w.Advice, "\n")
			if !strings.Contains(text, tt.want) || tt.not != "" && strings.Contains(text, tt.not) {
				t.Errorf("got %s\nwant %q, not %q", text, tt.want, tt.not)
			}
			if w.Quorum != (locker.view.Answered == 2) || (w.Error == "") != (locker.view.Fault == nil) ||
				w.Blocked != strings.Contains(text, " cannot have it") {
				t.Errorf("quorum %v, error %q, blocked %v", w.Quorum, w.Error, w.Blocked)
			}
		})
	}
}

// TestWaitersReply: LOCKPROXY WAITERS lists the queue of a key in order, and Why its first
// clients.
func TestWaitersReply(t *testing.T) {
	c, r, locker, _ := start(t, func(o *Options) { o.AdminCommands, o.Name = true, "here" })
	locker.view, locker.masters = someView, threeMasters()
	if got := ask(t, c, r, "LOCKPROXY", "WAITERS", "job"); got != "*0" {
		t.Errorf("nobody waits: got %q", got)
	}
	got := ask(t, c, r, "LOCKPROXY", "WHY", "job")
	var w stat.Why
	if err := json.Unmarshal([]byte(got), &w); err != nil || w.Key != "job" || w.Hex != "6a6f62" ||
		w.Asked != "here" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, wrong := range []string{"WAITERS", "WHY"} {
		want := "-ERR wrong number of arguments for 'lockproxy|" + strings.ToLower(wrong) + "' command"
		if got := ask(t, c, r, "LOCKPROXY", wrong); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// stuckAcquirer never answers, so that clients stay in their queue.
type stuckAcquirer struct{}

func (stuckAcquirer) AcquireAsync(quorum.Request, func(quorum.Lease, error)) func() bool {
	return func() bool { return true }
}
func (stuckAcquirer) Flush()                                             {}
func (stuckAcquirer) Watch(context.Context, string, func(string)) func() { return func() {} }

// TestWhyNamesWaiters: the waiters come in order, at most a hundred of them.
func TestWhyNamesWaiters(t *testing.T) { synctest.Test(t, whyNamesWaiters) }

func whyNamesWaiters(t *testing.T) {
	s, _ := whyFixture(t, nil)
	s.queues = queue.New(stuckAcquirer{}, stuckAcquirer{}, 3, 1000, time.Minute)
	s.operators.queues = s.queues
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 101 {
		want := quorum.Request{Key: "job", Owner: fmt.Sprint("w\x01", i), Mode: quorum.Shared}
		go s.queues.Wait(ctx, nil, 0, &net.UnixAddr{Net: "unix"}, want)
		time.Sleep(time.Millisecond)
	}
	w := whyOf(t, s)
	cancel()
	synctest.Wait()
	if w.Waiting != 101 || len(w.Waiters) != 100 {
		t.Fatalf("%d of %d waiters", len(w.Waiters), w.Waiting)
	}
	for i, one := range w.Waiters {
		want := stat.WhyWaiter{Place: i + 1, Label: fmt.Sprint(`w\x01`, i), Address: "Unix socket", Mode: "shared",
			Age: int64(101 - i)}
		if one != want {
			t.Errorf("got %+v, want %+v", one, want)
		}
	}
}
