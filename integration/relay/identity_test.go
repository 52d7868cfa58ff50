package relay

import (
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// A lock command is granted exactly to users who may lock. Random scripts of all commands that
// change a connection's user or state, or look as if they did, go through the proxy in random
// pieces, and directly to the same server. In the place of each lock command the direct run asks
// the server who is logged in, whether a transaction is open and whether it replies at all.
// Through the proxy, a user with the right must get the lock and no other user may; a refusal must
// have the right code; all other bytes must be equal.
//
// It tries 300 scripts, or 600 with INTEGRATION_LONG. A thorough run, and the repetition of one
// script:
//
//	IDENTITY_SCRIPTS=50000 IDENTITY_TIME=1h go test -count=1 -timeout 2h -run 'TestIdentity$' \
//		./integration/relay
//	INTEGRATION_SEED=7 IDENTITY_FIRST=1234 IDENTITY_SCRIPTS=1 go test -count=1 -v \
//		-run 'TestIdentity$' ./integration/relay
//
// VALKEY_SERVER names a valkey-server of 9.1 or later that is not in the PATH, and
// INTEGRATION_BINARY another lockproxy. IDENTITY_FAULTS is the number of different faults that
// ends the run (1). IDENTITY_ONLY is a prefix of the faults that count, such as "granted": so a
// version that has many can be searched for one kind.
func TestIdentity(t *testing.T) {
	rigs, master := identityRigs(t)
	run := &identityRun{t: t, seed: lab.SeedOf(t, uint64(time.Now().UnixNano())), rigs: rigs, master: master,
		end:   time.Now().Add(time.Hour),
		found: map[string]bool{}, only: os.Getenv("IDENTITY_ONLY"), faults: int(numberFrom(t, "IDENTITY_FAULTS", 1)),
		limit: numberFrom(t, "IDENTITY_SCRIPTS", lab.Long[uint64](300, 600))}
	if text := os.Getenv("IDENTITY_TIME"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		run.end = time.Now().Add(d)
	}
	first := numberFrom(t, "IDENTITY_FIRST", 0)
	run.next.Store(first)
	run.limit += first
	start := time.Now()
	var wg sync.WaitGroup
	for range 6 {
		w := newIdentityWorker(t, run)
		wg.Go(w.work)
	}
	wg.Wait()
	done := run.next.Load() - first
	t.Logf("%d scripts in %v, %.0f a second: %d lock commands granted, %d refused, %d silent; %d answers of a busy proxy, %d refusals of a user that cannot be asked, %d scripts set aside, %d faults not seen again",
		done, time.Since(start).Round(time.Millisecond), float64(done)/time.Since(start).Seconds(), run.granted.Load(),
		run.refused.Load(), run.silent.Load(), run.busy.Load(), run.lenient.Load(), run.aside.Load(), run.once.Load())
	if busy := run.busy.Load(); busy > 20+run.granted.Load()/20 {
		t.Errorf("got %d answers of a busy proxy, too many for a thorough test", busy)
	}
	if aside := run.aside.Load(); aside > 5+done/100 {
		t.Errorf("%d of %d scripts set aside, too many for a thorough test", aside, done)
	}
}

func numberFrom(t *testing.T, name string, fallback uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return fallback
	}
	n, err := strconv.ParseUint(text, 10, 62)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// identityRun is the state that the workers share.
type identityRun struct {
	t      *testing.T
	seed   uint64
	rigs   []*identityRig
	master *lab.Redis
	end    time.Time
	limit  uint64 // end of the script numbers
	faults int    // number of different faults that ends the run
	only   string // prefix of the kinds that count

	next, keys                                           atomic.Uint64
	granted, refused, silent, busy, lenient, aside, once atomic.Uint64

	mu    sync.Mutex
	found map[string]bool // by kind and rig
}

// identityWorker runs scripts one by one.
type identityWorker struct {
	*identityRun
	desks  map[*lab.Redis]*desk
	master *desk
}

func newIdentityWorker(t *testing.T, run *identityRun) *identityWorker {
	w := &identityWorker{identityRun: run, desks: map[*lab.Redis]*desk{}, master: newDesk(t, run.master)}
	for _, r := range run.rigs {
		if w.desks[r.server] == nil {
			w.desks[r.server] = newDesk(t, r.server, "admin")
		}
	}
	return w
}

func (w *identityWorker) work() {
	for time.Now().Before(w.end) && w.foundSoFar() < w.faults {
		number := w.next.Add(1) - 1
		if number >= w.limit {
			w.next.Add(^uint64(0))
			return
		}
		rig := w.rigOf(number)
		script := newIdentityScript(w.seed, number, rig.password)
		fault := w.try(rig, script, true)
		if fault.kind == "" || !strings.HasPrefix(fault.kind, w.only) || !w.first(fault.kind, rig) {
			continue
		}
		w.report(rig, number, script, fault)
	}
}

// rigOf returns the rig for a script. Without a valkey-server only scripts for its rigs go to
// others, so that numbers stay comparable.
func (r *identityRun) rigOf(number uint64) *identityRig {
	slot := int(number % 12)
	if slot >= len(r.rigs) {
		slot -= 2
	}
	return r.rigs[slot]
}

func (w *identityWorker) foundSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.found)
}

// first reports whether this is the first fault of its kind in this rig.
func (w *identityWorker) first(kind string, rig *identityRig) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.found[kind+rig.name]
	w.found[kind+rig.name] = true
	return !known
}

// report fails the test with the shortest script that shows the fault.
func (w *identityWorker) report(rig *identityRig, number uint64, script identityScript, fault identityFault) {
	small, again, ok := w.shrink(rig, script, fault)
	seen := "seen again with fewer commands"
	if !ok {
		w.once.Add(1)
		seen = "not seen again; this is the whole script"
	}
	var lines strings.Builder
	for _, s := range small.steps {
		fmt.Fprintf(&lines, "\t%v\n", s)
	}
	w.t.Errorf("%s (%s): INTEGRATION_SEED=%d IDENTITY_FIRST=%d IDENTITY_SCRIPTS=1\n%s\n%s; in pieces: %v\n%s",
		fault.kind, rig.name, w.seed, number, again.what, seen, small.cuts != 0, &lines)
}

// try runs a script both ways. count: include it in the totals, because shrink did not make it.
func (w *identityWorker) try(rig *identityRig, s identityScript, count bool) identityFault {
	conn, err := dialDirect(rig, w.desks[rig.server])
	if err != nil {
		return identityFault{}
	}
	defer conn.Close()
	end := fmt.Sprintf("end-%d", w.keys.Add(1))
	twin := &identityTwin{rig: rig, conn: conn}
	setAside := func() identityFault {
		if count {
			w.aside.Add(1)
		}
		return identityFault{}
	}
	if err := twin.play(s, end); err != nil {
		return setAside()
	}
	result, keys := w.through(rig, s, twin, end)
	if result.fault.kind == "" {
		result.fault = w.landed(twin, result, keys)
	}
	if result.fault.kind != "" && !w.repeats(rig, s, twin, end) {
		return setAside()
	}
	if count {
		for _, refused := range result.refused {
			if refused {
				w.refused.Add(1)
			} else {
				w.granted.Add(1)
			}
		}
		w.silent.Add(uint64(twin.silent))
		w.busy.Add(uint64(result.busy))
		w.lenient.Add(uint64(result.lenient))
	}
	return result.fault
}

// repeats reports whether another direct run gets the same answers. On a busy system a reply may
// come after the answers to the PINGs that were sent later on another connection, and the direct
// run then takes it for the reply to its next step.
func (w *identityWorker) repeats(rig *identityRig, s identityScript, first *identityTwin, end string) bool {
	conn, err := dialDirect(rig, w.desks[rig.server])
	if err != nil {
		return true
	}
	defer conn.Close()
	again := &identityTwin{rig: rig, conn: conn}
	return again.play(s, end) == nil && again.silent == first.silent && reflect.DeepEqual(again.parts, first.parts)
}

// through runs a script through the proxy, and returns the keys of its lock commands.
func (w *identityWorker) through(rig *identityRig, s identityScript, twin *identityTwin, end string) (r identityResult,
	keys []string) {
	c, err := lab.Connect(rig.proxy)
	if err != nil {
		return identityResult{fault: identityFault{wrongSilence, err.Error()}}, nil
	}
	defer c.Close()
	answer := &identityAnswer{conn: c, parts: twin.parts, end: end}
	fresh := func() string { return strconv.FormatUint(w.keys.Add(1), 36) }
	steps := append(append([]identityStep(nil), s.steps...), identityStep{args: []string{"RESET"}},
		identityStep{args: []string{"HELLO", "2", end}})
	steps[len(s.steps)].wait = rig.password // see waitForResets
	for from := 0; from < len(steps); {
		upTo := from + 1
		for upTo < len(steps) && !steps[upTo].wait {
			upTo++
		}
		text, used := textOf(steps[from:upTo], fresh)
		keys = append(keys, used...)
		for _, piece := range pieces(text, s.cuts) {
			if c.Put(piece) != nil {
				break
			}
		}
		var complete bool
		if r, complete = answer.read(upTo); !complete {
			return r, keys
		}
		from = upTo
	}
	return r, keys
}

// identityAnswer is the answer that a script gets through the proxy.
type identityAnswer struct {
	conn  *lab.Conn
	parts []identityPart // the direct answer
	end   string         // in the last reply
	got   strings.Builder
}

// read reads and judges the answer to the steps before upTo. complete: it arrived without a fault.
func (a *identityAnswer) read(upTo int) (r identityResult, complete bool) {
	deadline := time.Now().Add(lab.Patience)
	buf := make([]byte, 64<<10)
	for {
		if r = judge(a.parts, upTo, a.got.String()); !r.more && r.fault.kind == "" {
			return r, true
		}
		if !r.more && (r.fault.kind != wrongBytes || strings.Contains(a.got.String(), "'"+a.end+"'")) {
			return r, false
		}
		_ = a.conn.SetReadDeadline(deadline)
		n, err := a.conn.Reader.Read(buf)
		a.got.Write(buf[:n])
		if err != nil && n == 0 {
			if r.fault.what += "; " + err.Error(); !os.IsTimeout(err) {
				r.fault.what += "; the proxy closed the connection"
			}
			return r, false
		}
	}
}

// landed finds lock commands that locked their key although they were refused or got no answer.
func (w *identityWorker) landed(twin *identityTwin, r identityResult, keys []string) identityFault {
	if len(keys) == 0 || twin.silent == 0 && len(keys) == len(r.refused) &&
		!strings.Contains(fmt.Sprint(r.refused), "true") {
		return identityFault{}
	}
	granted := 0
	for _, refused := range r.refused {
		if !refused {
			granted++
		}
	}
	args := []string{"EXISTS"}
	for _, key := range keys {
		args = append(args, "lock:"+key)
	}
	if got := w.master.ask(args...); lab.Number(w.t, lab.Scalar(got)) > granted {
		return identityFault{wrongLanding, fmt.Sprintf("%s of the keys %q are locked, %d were granted",
			strings.TrimSpace(got), keys, granted)}
	}
	return identityFault{}
}
