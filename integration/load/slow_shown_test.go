package load

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestSlowMasterIsShown: every report to operators shows a master that answers later than the
// majority needs, and that it still votes. Once it answers in time again, the log says so.
func TestSlowMasterIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		begin fault
		tried bool
	}{
		"62ms":   {slowBy(62 * time.Millisecond), true},
		"200ms":  {slowBy(200 * time.Millisecond), lab.IsLong()},
		"frozen": {frozen, true},
	} {
		if !c.tried {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantSlowMasterShown(t, c.begin)
		})
	}
}

func wantSlowMasterShown(t *testing.T, begin fault) {
	masters, slow := startMasters(t, 1)
	addrs := lab.Addrs(masters)
	addrs[0] = slow[0].link.Addr
	admin := lab.FreeAddr(t)
	flags := append([]string{"--upstream", lab.StartRedis(t).Addr, "--masters", strings.Join(addrs, ","),
		"--admin-listen", admin}, defaults...)
	p := lab.StartPlainProxy(t, flags...)
	p.WaitVoting(t)
	desk := lab.Dial(t, p.Addr)
	o := outcome{machine: watchMachine(t, p, masters)}
	stop := gather(t, p, "job", 4).work(&o, "5s", pace)
	end := begin(t, slow)
	listed := func() (slow int) { // 0 unless all masters vote
		reply := desk.Do("LOCKPROXY", "MASTERS")
		if strings.Count(reply, "voting") < 5 {
			return 0
		}
		return strings.Count(reply, "later than the majority needs")
	}
	for _, place := range []struct {
		name  string
		shows func() bool
	}{
		{"LOCKPROXY MASTERS", func() bool { return listed() > 0 }},
		{"the metrics", func() bool {
			return sample(t, admin, "/metrics", `lockproxy_master_slow_seconds{master="`+addrs[0]+`"} 0.`) ||
				sample(t, admin, "/metrics", `lockproxy_master_slow_seconds{master="`+addrs[0]+`"} 1.`)
		}},
		{"the page", func() bool { return sample(t, admin, "/events", `later than the majority needs`) }},
		{"lockproxy status", func() bool {
			return listed() == 1 && strings.Contains(lab.FinishTool(t, 0, "status", "--addr", p.Addr), // it costs a process
				"5 of 5 vote, 1 slow, 3 needed, 1 may fail")
		}},
		{"the log", func() bool { return p.Says("master is slow") }},
	} {
		lab.WaitFor(t, "the slow master in "+place.name, lab.Patience, place.shows)
	}
	end()
	slow[0].link.Slow(0)
	stop()
	o.wantNone(t)
	lab.WaitFor(t, "the end of the slowness in the log", lab.Patience,
		func() bool { return p.Says("master answers in time again") })
}

// sample reports whether a path answers a line that contains text. It reads only the first report
// of a stream.
func sample(t *testing.T, admin, path, text string) bool {
	t.Helper()
	r, err := http.Get("http://" + admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return true
		}
		if strings.HasPrefix(lines.Text(), `data: {"now"`) {
			return false // the stream never ends
		}
	}
	return false
}
