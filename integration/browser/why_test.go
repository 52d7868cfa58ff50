package browser

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lockproxy/integration/lab"
)

// The page answers an operator's questions: who waits, for how long a lock lasts, why a key is
// taken, which fault there is, and the next step.
func TestWhy(t *testing.T) {
	p := openTab(t)
	addr := lab.FreeAddr(t)
	l := lab.Start(t, lab.Config{Masters: 5, Relays: true, Flags: []string{"--max-ttl", "60s", "--admin-commands", "on"},
		Proxies: 1})
	first := l.StartProxy(t, "--admin-listen", addr)
	d := &deployment{l, "http://" + addr + "/"}
	holder, other := lab.Dial(t, first.Addr), lab.Dial(t, d.Proxies[0].Addr)
	lab.WaitAllVote(t, l, holder)
	lab.WaitAllVote(t, l, other)
	for i := range 190 {
		holder.Do("LOCK", fmt.Sprintf("order:%03d", i), "60s", "SESSION", "OWNER", fmt.Sprintf("shop-%d", i%17))
	}
	holdSome(t, holder)
	d.queue(t, first, "deploy:production", 3)
	p.look(1280, 900, 1, false)
	p.do(chromedp.Navigate(d.page))
	p.wait("who waits", `document.querySelectorAll('#waiting td.key').length === 1`)
	d.queue(t, first, "report:nightly", 30)
	p.wait("the longest wait first", `[...document.querySelectorAll('#waiting td.key')].map(e => e.innerText).join() === 'deploy:production,report:nightly'`)
	p.search("")
	p.wait("the locks", `document.querySelectorAll('#held td.key').length === 25`)
	if !eval[bool](p, `document.querySelector('#waiting').getBoundingClientRect().bottom < document.querySelector('#held').getBoundingClientRect().top`) {
		t.Error("the waits are not above the locks")
	}
	p.everyWidth(t, "200-locks")

	testBars(t, p, holder, other)
	testWhy(t, p)
	testSlow(t, p, d, first)
	testMinority(t, p, d)
	testOperations(t, p)
}

// queue lets clients wait for a key until the test ends.
func (d *deployment) queue(t *testing.T, proxy *lab.Proxy, key string, n int) {
	for i := range n {
		c := lab.Dial(t, proxy.Addr)
		go func() { _, _ = c.Ask("LOCK", key, "10s", "WAIT", "10m", "OWNER", fmt.Sprintf("waiter-%d", i)) }()
	}
}

// testBars: the bar of a lock shows the share of the granted ttl that is left, in three colours. A
// lock whose ttl is not known has none.
func testBars(t *testing.T, p *tab, holder, other *lab.Client) {
	row := func(key string) string {
		return fmt.Sprintf(`[...document.querySelectorAll('#held tbody tr')].find(r => r.querySelector('td.key').innerText === %q)`, key)
	}
	bar := func(class string) string {
		return row("brief") + `?.querySelector('.bar i').className === '` + class + `'`
	}
	holder.Do("LOCK", "brief", "9s", "OWNER", "me")
	other.Do("LOCK", "brief:foreign", "30s", "OWNER", "me")
	p.search("brief")
	p.wait("a bar in the first colour", bar(""))
	for _, class := range []string{"mid", "low"} {
		p.wait("a bar in the colour "+class, bar(class))
		left := eval[[]float64](p, `(r => [parseFloat(r.querySelector('.w-left span').innerText) / 9, parseFloat(r.querySelector('.bar i').style.width) / 100])(`+row("brief")+`)`)
		if text := eval[string](p, row("brief")+`.querySelector('.w-left span').innerText`); !strings.HasSuffix(text,
			" of 9.0\u202fs") && !strings.HasSuffix(text, " of 9\u202fs") {
			t.Errorf("got time left %q", text)
		} else if strings.Contains(text, "\u202fs of") && (left[1] > left[0]+0.02 || left[1] < left[0]-0.02) {
			t.Errorf("%q: got a bar of %.2f, want %.2f", text, left[1], left[0])
		}
	}
	if eval[bool](p, row("brief:foreign")+`.querySelector('.bar').checkVisibility()`) {
		t.Error("a lock whose ttl is not known has a bar")
	}
}

// testWhy opens the dialog by a click and by typing, and reads it.
func testWhy(t *testing.T, p *tab) {
	eval[bool](p, `(document.querySelector('#waiting td.key a').click(), true)`)
	p.wait("the dialog", `document.querySelector('#why').open && document.querySelector('#why-verdict').innerText === 'ci-7 holds it.'`)
	for id, want := range map[string]string{"key": "deploy:production", "left-text": " of 30\u202fs left",
		"facts": "5 of 5 masters", "waiters": "waiter-0",
		"waiting-count": "3 clients", "masters": "holds it", "advice": "LOCKPROXY RELEASE"} {
		if got := p.text("#why-" + id); !strings.Contains(got, want) {
			t.Errorf("#why-%s: got %q, want it to contain %q", id, got, want)
		}
	}
	p.wait("since when, and from where", `document.querySelector('#why-facts').innerText.includes(', for ') && document.querySelector('#why-facts').innerText.includes('127.0.0.1:')`)
	if eval[bool](p, `document.querySelector('#why-minority').checkVisibility()`) {
		t.Error("with a quorum the dialog speaks of a minority")
	}
	p.everyWidth(t, "why")
	p.do(chromedp.KeyEvent("\x1b"))
	p.wait("the end of the dialog", `!document.querySelector('#why').open && location.hash === ''`)
	for key, want := range map[string]string{
		"report:nightly": "2 readers share it", "pool:workers": "2 holders have slots", "nobody's": "Nobody holds it.",
		hostile[0]: "<b>bold</b> holds it."} {
		eval[bool](p, fmt.Sprintf(`(document.querySelector('#search-text').value = %q, document.querySelector('#search-why').click(), true)`, key))
		p.wait("why "+key, fmt.Sprintf(`document.querySelector('#why-verdict').checkVisibility() && document.querySelector('#why-verdict').innerText.startsWith(%q) && document.querySelector('#why-key').innerText === %q`, want, key))
		p.shoot(filepath.Join(t.ArtifactDir(), "why-"+strings.Trim(key, "<>/='()")[:5]+".png"))
		p.do(chromedp.KeyEvent("\x1b"))
		p.wait("the end of the dialog", `!document.querySelector('#why').open`)
	}
	eval[bool](p, `(document.querySelector('#waiting td.key a').click(), true)`)
	p.wait("the dialog again", `document.querySelector('#why').open`)
	// before the browser reports the close
	eval[bool](p, `(document.querySelector('#why').close(), location.hash = 'why=another', true)`)
	p.wait("a key that is asked for while the dialog closes",
		`document.querySelector('#why').open && document.querySelector('#why-key').innerText === 'another'`)
	p.do(chromedp.KeyEvent("\x1b"))
	p.wait("the end of the dialog", `!document.querySelector('#why').open`)
}

// testSlow: a slow master is a problem with a next step and a link to its alert.
func testSlow(t *testing.T, p *tab, d *deployment, proxy *lab.Proxy) {
	relays := d.Relays[len(d.Relays)-1]
	relays[2].Slow(400 * time.Millisecond)
	c := lab.Dial(t, proxy.Addr)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = c.Ask("LOCK", fmt.Sprint("slow:", n), "1s")
			}
		}
	}()
	p.wait("the slow master", `document.querySelector('#problems').innerText.includes('later than the majority needs') && document.querySelectorAll('.master[data-slow]').length === 1`)
	if to := eval[string](p, `document.querySelector('#problems a[href^=operations]').getAttribute('href')`); to != "operations#LockproxyMasterSlow" {
		t.Errorf("got a link to %s", to)
	}
	p.everyWidth(t, "slow")
	close(stop)
	<-done
	relays[2].Slow(0)
}

// testMinority: without a quorum the dialog shows the keys of the others, and says so.
func testMinority(t *testing.T, p *tab, d *deployment) {
	for _, m := range d.Masters[:3] {
		m.Kill()
	}
	p.wait("three down", `document.querySelectorAll('.master[data-state=down]').length === 3`)
	eval[bool](p, `(document.querySelector('#waiting td.key a').click(), true)`)
	p.wait("the minority's view", `document.querySelector('#why-minority').checkVisibility() &&
		document.querySelector('#why-minority').innerText.startsWith('Seen on 2 of 5 masters') && document.querySelector('#why-masters').innerText.match(/refused|closed/) && document.querySelector('#why-verdict').innerText === 'ci-7 may hold it.'`)
	p.everyWidth(t, "why-minority")
	p.do(chromedp.KeyEvent("\x1b"))
	p.wait("the end of the dialog", `!document.querySelector('#why').open`)
}

// testOperations: the link of a problem leads to the row of its alert.
func testOperations(t *testing.T, p *tab) {
	eval[bool](p, `(document.querySelector('#problems a[href="operations#LockproxyNoQuorum"]').click(), true)`)
	p.wait("the row", `location.pathname === '/operations' && document.querySelector('tr:target td')?.innerText === 'LockproxyNoQuorum' &&
		document.querySelector('tr:target').getBoundingClientRect().top < innerHeight`)
	for _, width := range widths {
		p.look(width, 900, 1, width == 390)
		if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(width) {
			t.Errorf("at %d: got a document %d wide", width, wide)
		}
		if bad := eval[[]string](p, contrast); len(bad) > 0 {
			t.Errorf("got too little contrast: %q", bad)
		}
	}
	p.shoot(filepath.Join(t.ArtifactDir(), "operations.png"))
}
