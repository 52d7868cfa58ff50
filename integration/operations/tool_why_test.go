package operations

import (
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"

	"lockproxy/integration/lab"
	"lockproxy/stat"
)

// reason is the output of lockproxy why --json.
type reason struct {
	stat.Why
	Proxies []struct{ Proxy, Error, Limited string }
}

func why(t *testing.T, code int, addr string, args ...string) (r reason) {
	t.Helper()
	text := lab.FinishTool(t, code, append([]string{"why", "--json", "--addr", addr}, args...)...)
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

// labels returns the labels of the waiters of one proxy, in order.
func (r *reason) labels(proxy string) (list []string) {
	for _, w := range r.Waiters {
		if strings.HasSuffix(w.Proxy, proxy) {
			list = append(list, w.Label)
		}
	}
	return list
}

// wantText fails unless text has all the words.
func wantText(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("got no %q in\n%s", word, text)
		}
	}
}

// Holder and waiters are known to different proxies; why shows all of them, and where each is.
func TestWhyAddsUpProxies(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5, "--admin-commands", "on")
	page := lab.FreeAddr(t)
	second := lab.StartProxy(t, slices.Concat(c.Flags, []string{"--admin-listen", page})...)
	holder := lab.Dial(t, second.Addr)
	lab.WaitStates(t, holder, lab.Patience, "voting", "voting", "voting", "voting", "voting")
	holder.WantToken("LOCK", "job", "50s", "OWNER", "first")
	lab.WantHolders(t, c.Masters, "job", 5) // before a waiter may come first on the slowest master
	near, far := lab.Dial(t, c.Addr), lab.Dial(t, second.Addr)
	wait := func(addr, label string, ask *lab.Client, n int, more ...string) {
		lab.Dial(t, addr).Later(slices.Concat([]string{"LOCK", "job", "50s", "WAIT", "0", "OWNER", label}, more)...)
		ask.WaitWaiting(n)
	}
	wait(c.Addr, "w1", near, 1)
	wait(second.Addr, "w2", far, 1)
	wait(c.Addr, "w3", near, 2, "SHARED")

	r := why(t, 0, c.Addr, "job", "--proxies", page)
	if r.Mode != "exclusive" || r.Owner != "first" || r.Held != 5 || !r.Quorum || r.Granted != 50_000 || r.TTL > 50_000 ||
		r.TTL <= 0 {
		t.Errorf("got holder %+v", r.Why)
	}
	if r.Since == 0 || !strings.HasSuffix(r.Proxy, " "+second.Addr) || !strings.Contains(r.Client, ":") {
		t.Errorf("got since %d, proxy %q, client %q; want those of the second proxy", r.Since, r.Proxy, r.Client)
	}
	if len(r.Voters) != 5 || slices.ContainsFunc(r.Voters, func(m stat.WhyMaster) bool {
		return !m.Holds || !m.Answered || m.TTL <= 0
	}) {
		t.Errorf("got voters %+v", r.Voters)
	}
	if a, b := r.labels(c.Addr), r.labels(second.Addr); !slices.Equal(a, []string{"w1", "w3"}) ||
		!slices.Equal(b, []string{"w2"}) || r.Waiting != 3 {
		t.Errorf("got waiters %+v", r.Waiters)
	}
	for _, w := range r.Waiters {
		if want := map[string]int{"w1": 1, "w2": 1, "w3": 2}[w.Label]; w.Place != want ||
			!strings.HasPrefix(w.Address, "127.0.0.1:") {
			t.Errorf("got waiter %+v, want place %d", w, want)
		}
	}
	list := lab.Elements(near.Do("LOCKPROXY", "WAITERS", "job"))
	if len(list) != 2 || lab.MapOf(list[0])["label"] != "w1" || lab.MapOf(list[1])["label"] != "w3" ||
		lab.MapOf(list[1])["mode"] != "shared" ||
		lab.MapOf(list[0])["address"] == "" || lab.MapOf(list[0])["age_ms"] == "" {
		t.Errorf("LOCKPROXY WAITERS: got %q", list)
	}
	text := lab.FinishTool(t, 0, "why", "--addr", c.Addr, "--proxies", page, "job")
	wantText(t, text, "job is held by first at "+r.Client, "granted by", second.Addr, "5 of 5 masters", "3 waiting", "w1",
		"w2", "w3", c.Masters[4].Addr+" has it")

	alone := why(t, 0, c.Addr, "job")
	if alone.Since != 0 || alone.Proxy != "" || alone.Waiting != 2 {
		t.Errorf("one proxy alone: got %+v", alone.Why)
	}
	lab.FinishTool(t, 69, "why", "--addr", "127.0.0.1:1", "job")
	if r := why(t, 0, "127.0.0.1:1", "job", "--proxies", page); r.Owner != "first" || r.Proxies[0].Error == "" {
		t.Errorf("by HTTP only: got %+v", r)
	}
}

// Without admin-commands a proxy says who holds the lock and no more.
func TestWhyWithFewRights(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3)
	host := lab.Dial(t, c.Addr)
	host.WantToken("LOCK", "job", "60s", "OWNER", "me")
	lab.WantHolders(t, c.Masters, "job", 3)
	r := why(t, 0, c.Addr, "job")
	if r.Owner != "me" || r.Held != 3 || !strings.Contains(r.Proxies[0].Limited, "admin-commands") {
		t.Errorf("got %+v", r)
	}
	if got := host.Do("LOCKPROXY", "WAITERS", "job"); !strings.HasPrefix(got,
		"-NOPERM LOCKPROXY WAITERS needs admin-commands") {
		t.Errorf("got %q", got)
	}
	lab.FinishTool(t, 64, "why", "--addr", c.Addr)
	lab.FinishTool(t, 64, "why", "--addr", c.Addr, "a", "b")
	lab.FinishTool(t, 64, "why", "--addr", c.Addr, "job", "--proxies", "here")
}

// With two of three masters dead the relay works, and the last master names the holder.
func TestMinorityShowsHolder(t *testing.T) {
	t.Parallel()
	o := lab.StartOperators(t, "--admin-commands", "on", "--restart-guard", "off")
	addr := o.Proxies[0].Addr
	host := lab.Dial(t, addr)
	host.WantToken("LOCK", "job", "60s", "OWNER", "me")
	lab.WantHolders(t, o.Masters, "job", 3)
	o.Masters[0].Kill()
	o.Masters[1].Kill()
	lab.WaitFor(t, "the loss of the majority", lab.Patience, func() bool {
		return strings.Contains(host.Do("LOCK", "other", "60s"), "NOQUORUM")
	})
	host.WantDo("+OK\r\n", "SET", "a", "b")
	lab.FinishTool(t, 0, "health", "--ready", "--addr", addr)
	lab.FinishTool(t, 1, "health", "--ready=locks", "--addr", addr)

	info := host.Do("LOCKINFO", "job")
	wantText(t, info, "-NOQUORUM 1 of 3 masters can vote, 2 needed: ", "; seen on 1 of 3: exclusive, fence ",
		", owner me, ", "ms left\r\n")
	if got := host.Do("LOCKINFO", "nothing"); strings.Contains(got, "seen on") || !strings.HasPrefix(got, "-NOQUORUM") {
		t.Errorf("nothing: got %q", got)
	}
	r := why(t, 1, addr, "job")
	if r.Quorum || r.Seen != 1 || r.Masters != 3 || r.Held != 1 || r.Owner != "me" || r.Since == 0 ||
		!strings.HasPrefix(r.Error, "NOQUORUM 1 of 3") {
		t.Errorf("got %+v", r.Why)
	}
	if v := r.Voters; v[0].Answered || v[0].Error == "" || v[2].Master != o.Masters[2].Addr || !v[2].Holds {
		t.Errorf("got voters %+v", v)
	}
	wantText(t, lab.FinishTool(t, 1, "why", "--addr", addr, "job"), "seen on 1 of 3 masters",
		o.Masters[0].Addr+" did not answer: ", o.Masters[2].Addr+" has it")
	var code int
	var text string
	lab.Poll(lab.Patience, func() bool { // on a busy machine the master may be silent for a while
		code, text = o.Get("GET", "/locks", "", "")
		return strings.Contains(text, `"key":"job"`)
	})
	if code != 200 {
		t.Errorf("/locks: got %d %s", code, text)
	}
	wantText(t, text, `"key":"job"`, `"held":1,`, `"quorum":false,"error":"NOQUORUM 1 of 3 masters can vote`,
		`"seen":1,"masters":3`)
	if got := host.Do("LOCKPROXY", "LOCKS", "0"); !strings.HasPrefix(got, "-NOQUORUM") {
		t.Errorf("LOCKPROXY LOCKS: got %q", got)
	}
}

// A hash under the lock's name refuses LOCK, and is named as such.
func TestForeignKeyIsNamed(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	host := lab.Dial(t, c.Addr)
	lab.WaitStates(t, host, lab.Patience, "voting", "voting", "voting")
	c.Masters[0].Do(t, "HSET", "lock:job", "a", "1")
	host.WantDo("$-1\r\n", "LOCKINFO", "job") // two of three can grant
	if r := why(t, 0, c.Addr, "job"); r.Mode != "" || r.Voters[0].Other != "foreign" || r.Voters[0].Holds {
		t.Errorf("one of three: got %+v", r.Why)
	}
	c.Masters[1].Do(t, "HSET", "lock:job", "a", "1")
	c.Masters[1].Do(t, "PEXPIRE", "lock:job", "50000")
	host.WantDo("$-1\r\n", "LOCK", "job", "60s")
	m := lab.MapOf(host.Do("LOCKINFO", "job"))
	if m["mode"] != "foreign" || m["type"] != "hash" || m["held"] != "2" || m["masters"] != "3" || m["holders"] != "0" ||
		m["fence"] != "0" {
		t.Errorf("LOCKINFO: got %v", m)
	}
	if ttl := lab.Number(t, m["ttl"]); ttl <= 0 || ttl > 50_000 { // then two of three can grant
		t.Errorf("LOCKINFO: got ttl %d, want that of the second master", ttl)
	}
	r := why(t, 0, c.Addr, "job")
	if r.Mode != "foreign" || r.Type != "hash" || r.Held != 2 || r.Voters[0].TTL != -1 || r.Voters[2].Holds ||
		r.Holders != 0 {
		t.Errorf("got %+v", r.Why)
	}
	wantText(t, lab.FinishTool(t, 0, "why", "--addr", c.Addr, "job"), "job is not a lock: a key of type hash",
		"lock:job is a key of type hash that another program wrote on 2 masters")
	c.Masters[0].Do(t, "DEL", "lock:job")
	host.WantToken("LOCK", "job", "60s")
}

// A stray value on two of five masters is no lost quorum if one master is down, and names no
// holder.
func TestWhyWithoutAgreement(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 5, "--admin-commands", "on")
	host := lab.Dial(t, c.Addr)
	lab.WaitStates(t, host, lab.Patience, "voting", "voting", "voting", "voting", "voting")
	c.Masters[0].Do(t, "SET", "lock:a job", "stray")
	c.Masters[1].Do(t, "SET", "lock:a job", "stray")
	c.Masters[4].Kill()
	host.WantDo("$-1\r\n", "LOCK", "a job", "60s")
	lab.WaitFor(t, "a master that is down", lab.Patience, func() bool {
		return strings.HasPrefix(host.Do("LOCKINFO", "a job"), "-NOQUORUM")
	})
	wantText(t, host.Do("LOCKINFO", "a job"), "-NOQUORUM 4 of 5 masters can vote, but no majority agrees: ",
		"; seen on 2 of 5: exclusive, fence 0, ")
	r := why(t, 0, c.Addr, "a job")
	if !r.Quorum || !r.Blocked || r.Seen != 4 || r.Held != 2 || !strings.HasPrefix(r.Error, "NOQUORUM 4 of 5") {
		t.Errorf("got %+v", r.Why)
	}
	wantText(t, lab.FinishTool(t, 0, "why", "--addr", c.Addr, "a job"), "a job may be held by",
		", seen on 2 of 5 masters", "LOCK cannot have it now: it needs 3 of the 5 masters, and 2 are free",
		"LOCKPROXY RELEASE 'a job'")
	host.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "a job")

	c.Masters[0].Do(t, "SET", "lock:a job", "a")
	c.Masters[1].Do(t, "SET", "lock:a job", "b")
	c.Masters[2].Do(t, "HSET", "lock:a job", "a", "1")
	host.WantDo("$-1\r\n", "LOCK", "a job", "60s")
	if r := why(t, 0, c.Addr, "a job"); r.Mode != "" || !r.Blocked || r.Voters[2].Type != "hash" {
		t.Errorf("three different keys: got %+v", r.Why)
	}
	host.WantDo(":1\r\n", "LOCKPROXY", "RELEASE", "a job")
	if r := why(t, 0, c.Addr, "a job"); r.Blocked {
		t.Errorf("three masters are free: got %+v", r.Why)
	}
	host.WantToken("LOCK", "a job", "60s")
}

// Proxies of different masters disagree, and why says which of them says what.
func TestWhyNamesDisagreement(t *testing.T) {
	t.Parallel()
	c, d := lab.StartCluster(t, 3, "--admin-commands", "on"), lab.StartCluster(t, 3, "--admin-commands", "on")
	lab.Dial(t, c.Addr).WantToken("LOCK", "job", "60s", "OWNER", "me")
	text := lab.FinishTool(t, 0, "why", "--addr", c.Addr+","+d.Addr, "job")
	wantText(t, text, "but the proxies disagree about the holder, or it has just changed: "+c.Addr+": held by me, fence ",
		"; "+d.Addr+": not held\n",
		"but the proxies disagree about the masters: "+c.Addr+": asks 127.0.0.1:", "; "+d.Addr+": asks 127.0.0.1:")
}

// A hung master, hung masters and a hung proxy do not keep why from its answer.
func TestWhyAnswersWhateverHangs(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	page := lab.FreeAddr(t)
	second := lab.StartProxy(t, slices.Concat(c.Flags, []string{"--admin-listen", page})...)
	host := lab.Dial(t, c.Addr)
	lab.GrantOr(t, host, "job", func() string { return c.Log.Tail(2000) })
	lab.WantHolders(t, c.Masters, "job", 3)
	second.Signal(syscall.SIGSTOP)
	t.Cleanup(second.Resume)
	before := lab.Number(t, lab.MapOf(host.Do("LOCKINFO", "job"))["ttl"])
	c.Masters[0].Pause(t)
	r := why(t, 0, c.Addr+","+second.Addr, "job", "--proxies", page)
	if r.Held != 2 || !r.Quorum || r.Voters[0].Answered || !r.Voters[2].Holds {
		t.Errorf("a hung master: got %+v", r.Why)
	}
	if int(r.TTL) > int(before)-3900 { // the hung proxy was waited for
		t.Errorf("got ttl %d, which was %d 4s ago", r.TTL, before)
	}
	for i, want := range []string{"", "no answer to LOCKPROXY WHY in 4s", "no answer in 4s"} {
		if got := r.Proxies[i].Error; got != want {
			t.Errorf("proxy %d: got error %q, want %q", i, got, want)
		}
	}
	c.Masters[1].Pause(t)
	c.Masters[2].Pause(t)
	if r := why(t, 1, c.Addr, "job"); r.Quorum || r.Seen != 0 || r.Held != 0 || r.Voters[1].Error == "" {
		t.Errorf("hung masters: got %+v", r.Why)
	}
	wantText(t, lab.FinishTool(t, 69, "why", "--addr", second.Addr, "job"), "no answer to LOCKPROXY WHY in 4s")
}
