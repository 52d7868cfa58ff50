package relay

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestIdentity sends random scripts of everything that changes the standing of a connection, or
// looks as if it did, through the proxy in random pieces, and directly to the same server.
// Directly, in the place of each lock command, the server is asked who is logged in, whether a
// transaction is open and whether it answers at all. Through the proxy a lock command must be
// granted to one who may and to nobody else, a refusal must have the right code, and every other
// byte must be the same.
//
// It runs for ten seconds. A thorough run, and the repetition of one script:
//
//	IDENTITY_SCRIPTS=50000 IDENTITY_TIME=1h go test -count=1 -timeout 2h -run 'TestIdentity$' ./integration/relay
//	INTEGRATION_SEED=7 IDENTITY_FIRST=1234 IDENTITY_SCRIPTS=1 go test -count=1 -v -run 'TestIdentity$' ./integration/relay
//
// VALKEY_SERVER names a valkey-server of 9.1 or later that is not in the PATH; INTEGRATION_BINARY
// another lockproxy; IDENTITY_FAULTS how many different faults end the run (1), and IDENTITY_ONLY
// how the only ones that count begin, such as "granted": so a version that has many can be
// searched for one kind.
func TestIdentity(t *testing.T) {
	rigs, master := identityRigs(t)
	run := &identityRun{t: t, seed: lab.SeedOf(t, uint64(time.Now().UnixNano())), rigs: rigs, master: master, end: time.Now().Add(10 * time.Second),
		found: map[string]bool{}, only: os.Getenv("IDENTITY_ONLY"), faults: int(numberFrom(t, "IDENTITY_FAULTS", 1)), limit: numberFrom(t, "IDENTITY_SCRIPTS", 1<<62)}
	if run.limit < 1<<62 {
		run.end = run.end.Add(time.Hour)
	}
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
		done, time.Since(start).Round(time.Millisecond), float64(done)/time.Since(start).Seconds(), run.granted.Load(), run.refused.Load(), run.silent.Load(), run.busy.Load(), run.lenient.Load(), run.aside.Load(), run.once.Load())
	if busy := run.busy.Load(); busy > 20+run.granted.Load()/20 {
		t.Errorf("%d answers of a busy proxy: too many to have tested much", busy)
	}
	if aside := run.aside.Load(); aside > 5+done/100 {
		t.Errorf("%d of %d scripts set aside: too many to have tested much", aside, done)
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

// identityRun is what the workers share.
type identityRun struct {
	t      *testing.T
	seed   uint64
	rigs   []*identityRig
	master *lab.Redis
	end    time.Time
	limit  uint64 // of next
	faults int    // how many different ones end the run
	only   string // how the kinds that count begin

	next, keys                                           atomic.Uint64
	granted, refused, silent, busy, lenient, aside, once atomic.Uint64

	mu    sync.Mutex
	found map[string]bool // by kind and rig
}

// identityWorker runs one script after the other.
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

// rigOf: a script goes to the same rig where there is no valkey-server, but for those that went to
// that.
func (r *identityRun) rigOf(number uint64) *identityRig {
	slot := int(number % 10)
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

// first reports whether no worker has found such a fault before this one.
func (w *identityWorker) first(kind string, rig *identityRig) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known := w.found[kind+rig.name]
	w.found[kind+rig.name] = true
	return !known
}

// report shows a fault with the shortest script that has it.
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

// try runs a script both ways. count: it is one of the random ones.
func (w *identityWorker) try(rig *identityRig, s identityScript, count bool) identityFault {
	conn, err := dialDirect(rig.server, w.desks[rig.server])
	if err != nil {
		return identityFault{}
	}
	defer conn.Close()
	end := fmt.Sprintf("end-%d", w.keys.Add(1))
	twin := &identityTwin{rig: rig, conn: conn}
	if err := twin.play(s, end); err != nil {
		if count {
			w.aside.Add(1)
		}
		return identityFault{}
	}
	result, keys := w.through(rig, s, twin, end)
	if result.fault.kind == "" {
		result.fault = w.landed(twin, result, keys)
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

// through runs a script through the proxy, and returns the keys of its lock commands.
func (w *identityWorker) through(rig *identityRig, s identityScript, twin *identityTwin, end string) (r identityResult, keys []string) {
	c, err := lab.Connect(rig.proxy)
	if err != nil {
		return identityResult{fault: identityFault{wrongSilence, err.Error()}}, nil
	}
	defer c.Close()
	var got strings.Builder
	buf := make([]byte, 64<<10)
	fresh := func() string { return strconv.FormatUint(w.keys.Add(1), 36) }
	steps := append(append([]identityStep(nil), s.steps...), identityStep{args: []string{"RESET"}}, identityStep{args: []string{"HELLO", "2", end}})
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
		deadline := time.Now().Add(lab.Patience)
		for {
			if r = judge(twin.parts, upTo, got.String()); !r.more && r.fault.kind == "" {
				break
			}
			if !r.more && (r.fault.kind != wrongBytes || strings.Contains(got.String(), "'"+end+"'")) {
				return r, keys
			}
			_ = c.SetReadDeadline(deadline)
			n, err := c.Reader.Read(buf)
			got.Write(buf[:n])
			if err != nil && n == 0 {
				if r.fault.what += "; " + err.Error(); !os.IsTimeout(err) {
					r.fault.what += "; the proxy closed the connection"
				}
				return r, keys
			}
		}
		from = upTo
	}
	return r, keys
}

// landed looks whether a lock command that was refused, or had no answer, locked its key all the
// same.
func (w *identityWorker) landed(twin *identityTwin, r identityResult, keys []string) identityFault {
	if len(keys) == 0 || twin.silent == 0 && len(keys) == len(r.refused) && !strings.Contains(fmt.Sprint(r.refused), "true") {
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
		return identityFault{wrongLanding, fmt.Sprintf("%s of the keys %q are locked, %d were granted", strings.TrimSpace(got), keys, granted)}
	}
	return identityFault{}
}
