package browser

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lockproxy/integration/lab"
)

// hostile are keys that would take effect as markup, as a script or as a line end.
var hostile = []string{
	`<script>document.title='owned'</script>`, `<img src=x onerror="document.title='owned'">`,
	`"><svg onload=document.title='owned'>`,
	"two\r\nlines\x00", "\xff\xfe raw", "right\u202eleft", `{"a":1}`, strings.Repeat("long", 256),
}

// deployment is five masters and a proxy with a page.
type deployment struct {
	*lab.Lab
	page string
}

func startDeployment(t testing.TB, maxTTL string, flags ...string) *deployment {
	t.Helper()
	addr := lab.FreeAddr(t)
	l := lab.Start(t, lab.Config{Masters: 5, Flags: append([]string{"--admin-listen", addr, "--max-ttl", maxTTL},
		flags...)})
	return &deployment{l, "http://" + addr + "/"}
}

// work keeps clients busy until the test ends: some lock and unlock, some queue for one key.
func (d *deployment) work(t testing.TB) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	run := func(f func(c *lab.Conn, n int) error) {
		wg.Go(func() { keepBusy(d.Proxies[0].Addr, f, stop) })
	}
	pause := func() { <-time.After(5 * time.Millisecond) }
	for i := range 6 {
		run(func(c *lab.Conn, n int) error {
			pause()
			token, _, err := c.TryLock(fmt.Sprintf("order:%d", (i*7+n)%40), "2s")
			if err == nil && token != "" {
				_, err = c.Ask("UNLOCK", fmt.Sprintf("order:%d", (i*7+n)%40), token)
			}
			return err
		})
	}
	for range 5 {
		run(func(c *lab.Conn, _ int) error {
			reply, err := c.Ask("LOCK", "report:nightly", "3s", "WAIT", "20s", "OWNER", "worker")
			if token := lab.TokenOf(reply); err == nil && token != "" {
				<-time.After(30 * time.Millisecond)
				_, err = c.Ask("UNLOCK", "report:nightly", token)
			}
			return err
		})
	}
	run(func(c *lab.Conn, n int) error {
		pause()
		_, err := c.Ask("SET", "greeting", strconv.Itoa(n))
		return err
	})
	t.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}

// keepBusy calls f, each time with another n, until stop is closed. After an error it connects
// again.
func keepBusy(addr string, f func(c *lab.Conn, n int) error, stop <-chan struct{}) {
	for n := 0; ; n++ {
		c, err := lab.Connect(addr)
		for ; err == nil; n++ {
			select {
			case <-stop:
				c.Close()
				return
			default:
				err = f(c, n)
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond): // until the proxy is back
		}
	}
}

// The page shows operators a deployment at work, while a master is killed and restarts empty.
func TestPage(t *testing.T) {
	p := openTab(t)
	d := startDeployment(t, "6s")
	d.work(t)
	c := lab.Dial(t, d.Proxies[0].Addr)
	for i, key := range append([]string{"invoice:2041", "deploy:production", "import:customers"}, hostile...) {
		if reply := c.Do("LOCK", key, "6s", "SESSION", "OWNER", fmt.Sprintf("host-%d <b>", i)); lab.TokenOf(reply) == "" {
			t.Fatalf("LOCK %q: got %q", key, reply)
		}
	}
	p.look(1280, 900, 1, false)
	p.do(chromedp.Navigate(d.page))
	p.wait("five masters that vote", `document.querySelectorAll('.master[data-state=voting]').length === 5 && document.querySelector('#health-text').innerText === 'Ready'`)
	p.wait("locks a second", `Number(document.querySelector('#now-granted').innerText) > 0`)
	p.wait("those who wait", `document.querySelector('#waiting td.key') && document.querySelector('#waiting td.key').innerText === 'report:nightly'`)
	p.wait("lines in the charts", `document.querySelectorAll('#chart-rate path.line')[0].getAttribute('d').includes('L')`)

	testSearch(t, p)
	testLooks(t, p)
	testMaster(t, p, d)
	testProxy(t, p, d)
	if title := eval[string](p, "document.title"); strings.Contains(title, "owned") {
		t.Errorf("a key ran as a script: got title %q", title)
	}
}

// search types text and returns the locks found.
func (p *tab) search(text string) {
	p.Helper()
	p.wait("the search", "!document.querySelector('#search-go').disabled")
	eval[bool](p, fmt.Sprintf(`(() => {
  const field = document.querySelector('#search-text');
  field.value = %q;
  field.dispatchEvent(new Event('input'));
  document.querySelector('#search-go').click();
  return true;
})()`, text))
}

func testSearch(t *testing.T, p *tab) {
	shown := func() []string {
		return eval[[]string](p, `[...document.querySelectorAll('#held td.key')].map(e => e.textContent)`)
	}
	if got := shown(); len(got) != 0 {
		t.Errorf("without a search: got locks %q, want none", got)
	}
	p.search("invoice")
	p.wait("one lock", `document.querySelectorAll('#held td.key').length === 1`)
	row := p.text("#held tbody tr")
	for _, want := range []string{"invoice:2041", "host-0 <b>", "5/5", "s"} {
		if !strings.Contains(row, want) {
			t.Errorf("got row %q, want it to contain %q", row, want)
		}
	}
	if age := p.text("#held td[data-label=age]"); age == "–" {
		t.Error("got no age of a lock that this proxy granted")
	}
	p.search("<")
	p.wait("the hostile keys", `document.querySelectorAll('#held td.key').length === 3`)
	for _, key := range shown() {
		if !strings.Contains(strings.Join(hostile, "\n"), key) {
			t.Errorf("got key %q, which does not match", key)
		}
	}
	if n := eval[int](p, `document.querySelectorAll('#held script, #held img, #held svg, #held b').length`); n != 0 {
		t.Errorf("got %d elements from keys and labels, want none", n)
	}
	p.search("nothing like it")
	p.wait("that nothing was found", `document.querySelector('#held').innerText.includes('No lock matches')`)
	p.search("")
	p.wait("all that are held", `document.querySelectorAll('#held td.key').length >= 11`)
	all := strings.Join(shown(), "\n")
	for _, want := range []string{`two\r\nlines\x00`, `\xff\xfe raw`, `right\u202eleft`, "deploy:production"} {
		if !strings.Contains(all, want) {
			t.Errorf("got no key %s among\n%s", want, all)
		}
	}
}

// contrast lists text with less contrast to its background than WCAG's AA demands.
const contrast = `(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = c => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126*r + 0.7152*g + 0.0722*b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; } return [255, 255, 255]; };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement, text = walk.currentNode.textContent.trim();
    if (!text || !e.checkVisibility() || e.closest('noscript, .gone, .hidden')) continue;
    const style = getComputedStyle(e), ink = rgba(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) bad.push(text.slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return bad;
})()`

// All text is readable, light and dark, and a phone shows the page without scrolling sideways.
func testLooks(t *testing.T, p *tab) {
	for _, look := range []struct {
		name          string
		width, height int64
		scale         float64
		dark          bool
	}{{"light", 1280, 900, 1, false}, {"dark", 1280, 900, 1, true}, {"phone", 390, 844, 2, false},
		{"phone-dark", 390, 844, 2, true}} {
		p.look(look.width, look.height, look.scale, look.dark)
		p.wait("charts of that width", `[...document.querySelectorAll('.chart svg')].every(s => Math.abs(s.viewBox.baseVal.width - s.clientWidth) < 2)`)
		if bad := eval[[]string](p, contrast); len(bad) > 0 {
			t.Errorf("%s: got too little contrast: %q", look.name, bad)
		}
		if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(look.width) {
			t.Errorf("%s: got a page %d wide, want it to fit", look.name, wide)
		}
		p.shoot(filepath.Join(t.ArtifactDir(), look.name+".png"))
	}
	p.look(1280, 900, 1, false)
}

// The page shows a killed master within two seconds, and its quarantine counts down.
func testMaster(t *testing.T, p *tab, d *deployment) {
	third := `document.querySelectorAll('.master')[2]`
	d.Masters[2].Kill()
	took := p.wait("the killed master", third+`.dataset.state === 'down'`)
	t.Logf("a killed master is shown after %v", took)
	if took > 2*time.Second*lab.Slack {
		t.Errorf("a killed master is shown after %v", took)
	}
	p.wait("that one is away", `document.querySelector('#health-text').innerText === 'Ready, 1 master away'`)
	p.shoot(filepath.Join(t.ArtifactDir(), "down.png"))
	d.Masters[2].RestartEmpty(t)
	p.wait("the quarantine", third+`.dataset.state === 'quarantined' && `+third+`.querySelector('.count').checkVisibility()`)
	left := func() int {
		n, _ := strconv.Atoi(eval[string](p, `String(parseInt(`+third+`.querySelector('.count').lastChild.innerText))`))
		return n
	}
	first := left()
	const most, least = 9.9, 9.5 // the quarantine with max-ttl 6s
	if first < 1 || float64(first) > most+1 {
		t.Errorf("got %d s left of a quarantine of %v at most", first, most)
	}
	if share := eval[float64](p, third+`.querySelector('.bar i').style.width.replace('%', '') / 100`); share < float64(first-2)/most || share > float64(first+1)/least {
		t.Errorf("got the bar at %.2f with %d s left", share, first)
	}
	p.shoot(filepath.Join(t.ArtifactDir(), "quarantined.png"))
	p.wait("the countdown", fmt.Sprintf(`parseInt(%s.querySelector('.count').lastChild.innerText) < %d`, third, first))
	if reason := eval[string](p, third+`.querySelector('.reason').innerText`); !strings.HasPrefix(reason, "restarted ") ||
		!strings.HasSuffix(reason, "s ago") {
		t.Errorf("got reason %q", reason)
	}
	p.wait("its vote", third+`.dataset.state === 'voting' && document.querySelector('#health-text').innerText === 'Ready'`)
}

// Without the proxy the page says that its figures are old, and it resumes by itself when the
// proxy is back.
func testProxy(t *testing.T, p *tab, d *deployment) {
	d.Proxies[0].Kill()
	p.wait("the notice", `document.querySelector('#notice').checkVisibility() && document.querySelector('#notice').innerText.includes('No news since') &&
		document.querySelector('#health-text').innerText === 'No news'`)
	p.shoot(filepath.Join(t.ArtifactDir(), "lost.png"))
	if bad := eval[[]string](p, contrast); len(bad) > 0 {
		t.Errorf("got too little contrast: %q", bad)
	}
	d.Proxies[0].Restart(t)
	p.wait("news", `!document.querySelector('#notice').checkVisibility() && document.querySelectorAll('.master').length === 5`)
}
