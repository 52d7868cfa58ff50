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

// widths are those of a phone, a small window, a laptop and a large screen.
var widths = []int64{390, 1000, 1280, 1920}

// In each state of a deployment, at each width, the page fits the window, all text is readable,
// and every control has a name. The pictures are for people to look at.
func TestStates(t *testing.T) {
	p := openTab(t)
	d := startDeployment(t, "30s", "--admin-commands", "on")
	p.look(1280, 900, 1, false)
	p.do(chromedp.Navigate(d.page))
	p.wait("the proxy", `document.querySelector('#health-text').innerText === 'Ready'`)
	p.search("")
	p.wait("no locks", `document.querySelector('#held').innerText.includes('No locks are held')`)
	p.everyWidth(t, "0-locks")

	holder := lab.Dial(t, d.Proxies[0].Addr)
	holdSome(t, holder)
	crowd(t, d)
	p.search("")
	p.wait("the locks", `document.querySelectorAll('#held td.key').length >= 5`)
	p.wait("who waits", `document.querySelector('#waiting').innerText.includes('worker-')`)
	p.wait("what is fought over", `document.querySelector('#fought').innerText.includes('stock:rebuild')`)
	p.wait("the errors", `document.querySelector('#faults').innerText.includes('wrong arguments')`)
	p.everyWidth(t, "5-locks")
	testKeyboard(t, p)

	for i := range 500 {
		holder.Do("LOCK", fmt.Sprintf("order:%03d", i), "30s", "SESSION", "OWNER", fmt.Sprintf("shop-%d", i%17))
	}
	testMany(t, p)
	testStates(t, p, d)
}

// testStates covers masters that are down, and a proxy that is down.
func testStates(t *testing.T, p *tab, d *deployment) {
	p.search("deploy")
	d.Masters[0].Kill()
	d.Masters[1].Kill()
	p.wait("two down", `document.querySelectorAll('.master[data-state=down]').length === 2`)
	p.everyWidth(t, "masters-down")
	d.Masters[1].RestartEmpty(t)
	p.wait("a quarantine", `document.querySelectorAll('.master[data-state=quarantined]').length === 1`)
	p.everyWidth(t, "quarantine")
	d.Masters[2].Kill()
	d.Masters[3].Kill()
	p.wait("no quorum", `document.querySelector('#health-text').innerText === 'No quorum'`)
	p.search("deploy:production")
	p.wait("what is left", `document.querySelector('#minority').innerText.startsWith('Seen on 1 of 5 masters')`)
	p.wait("what to do", `document.querySelector('#problems li[data-tone=bad] .act').innerText.includes('Bring masters back') &&
		document.querySelectorAll('#problems li').length >= 2`)
	p.everyWidth(t, "no-quorum")
	d.Proxies[0].Kill()
	p.wait("no news", `document.querySelector('#health-text').innerText === 'No news'`)
	p.everyWidth(t, "no-news")
}

// holdSome takes a lock of each kind.
func holdSome(t *testing.T, c *lab.Client) {
	for _, words := range [][]string{
		{"LOCK", "deploy:production", "30s", "SESSION", "OWNER", "ci-7"},
		{"LOCK", "report:nightly", "30s", "SESSION", "SHARED", "OWNER", "reader-1"},
		{"LOCK", "report:nightly", "30s", "SESSION", "SHARED", "OWNER", "reader-2"},
		{"LOCK", "pool:workers", "30s", "SESSION", "LIMIT", "3", "OWNER", "slot-a"},
		{"LOCK", "pool:workers", "30s", "SESSION", "LIMIT", "3", "OWNER", "slot-b"},
		{"LOCK", hostile[0], "30s", "SESSION", "OWNER", "<b>bold</b>"},
		{"LOCK", "two\r\nlines\x00", "30s", "SESSION"},
	} {
		if reply := c.Do(words...); lab.TokenOf(reply) == "" {
			t.Fatalf("%q: %q", words, reply)
		}
	}
	for range 30 {
		c.Do("LOCK", "deploy:production", "5s") // refused
	}
	c.Do("LOCK", "deploy:production", "nonsense")
	c.Do("LOCK", "deploy:production", "1h")
}

// crowd lets clients wait for two keys until the test ends.
func crowd(t *testing.T, d *deployment) {
	for i := range 12 {
		c, err := lab.Connect(d.Proxies[0].Addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		go func() {
			for {
				key := []string{"stock:rebuild", "mail:digest"}[i%2]
				reply, err := c.Ask("LOCK", key, "10s", "WAIT", "60s", "OWNER", fmt.Sprintf("worker-%d", i))
				if err != nil {
					return // the proxy was killed
				}
				<-time.After(300 * time.Millisecond)
				if token := lab.TokenOf(reply); token != "" {
					_, _ = c.Ask("UNLOCK", key, token)
				}
			}
		}()
	}
}

// everyWidth checks the page at every width, light, and dark at two.
func (p *tab) everyWidth(t *testing.T, name string) {
	t.Helper()
	for i, width := range widths {
		height, scale := int64(900), 1.0
		if width < 600 {
			height, scale = 844, 2
		}
		look := fmt.Sprintf("%s-%d", name, width)
		p.look(width, height, scale, false)
		p.wantLegible(t, look, width)
		if i%2 == 0 {
			p.look(width, height, scale, true)
			p.wantLegible(t, look+"-dark", width)
		}
	}
	p.look(1280, 900, 1, false)
	if bad := eval[[]string](p, nameless); len(bad) > 0 {
		t.Errorf("%s: got elements without a name or a scope: %q", name, bad)
	}
}

// wantLegible takes a picture of the page, and checks that it fits and can be read.
func (p *tab) wantLegible(t *testing.T, look string, width int64) {
	t.Helper()
	p.wait("charts of that width", `[...document.querySelectorAll('.chart svg')].every(s => Math.abs(s.viewBox.baseVal.width - s.clientWidth) < 2)`)
	if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > int(width) {
		t.Errorf("%s: got a page %d wide, want it to fit", look, wide)
	}
	if bad := eval[[]string](p, contrast); len(bad) > 0 {
		t.Errorf("%s: got too little contrast: %q", look, bad)
	}
	if bad := eval[[]string](p, clipped); len(bad) > 0 {
		t.Errorf("%s: got text that does not fit: %q", look, bad)
	}
	p.shoot(filepath.Join(t.ArtifactDir(), look+".png"))
}

// clipped lists elements that must be visible as a whole but are cut or wrapped: heads of tables,
// buttons, counts, and texts of charts that overlap the scale.
const clipped = `[
  ...[...document.querySelectorAll('th button, td.w-release, .panel .count')].filter(e => e.checkVisibility() &&
    (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline' || e.getClientRects().length > 1)),
  ...[...document.querySelectorAll('.panel .count')].filter(e => e.getBoundingClientRect().height > 30),
  ...[...document.querySelectorAll('.chart .none')].filter(e => e.getBBox().x < 52 ||
    e.getBBox().x + e.getBBox().width > e.ownerSVGElement.clientWidth),
].map(e => e.outerHTML.slice(0, 120))`

// nameless lists controls without a name, and tables that a screen reader cannot describe.
const nameless = `[
  ...[...document.querySelectorAll('button, a, input, summary')].filter(e => e.checkVisibility() &&
    !(e.innerText || e.getAttribute('aria-label') || e.closest('label')?.innerText)),
  ...[...document.querySelectorAll('th')].filter(e => e.scope !== 'col' || !e.textContent),
  ...[...document.querySelectorAll('table')].filter(e => !e.caption || !e.caption.textContent),
  ...[...document.querySelectorAll('tr')].filter(e => e.getAttribute('role') !== 'row'),
].map(e => e.outerHTML.slice(0, 120))`

// testKeyboard sorts, opens the slots and releases a lock with the keyboard only.
func testKeyboard(t *testing.T, p *tab) {
	focus := func(script string) {
		if !eval[bool](p, `(e => { e.focus(); return document.activeElement === e; })(`+script+`)`) {
			t.Fatalf("no focus for %s", script)
		}
	}
	focus(`document.querySelectorAll('#held th button')[1]`)
	p.do(chromedp.KeyEvent("\r"))
	p.wait("the order by owner", `document.querySelectorAll('#held th')[1].getAttribute('aria-sort') === 'ascending'`)
	p.do(chromedp.KeyEvent("\r"))
	p.wait("the other order", `document.querySelectorAll('#held th')[1].getAttribute('aria-sort') === 'descending' &&
		document.querySelector('#held td[data-label=owner]').innerText.startsWith('worker-')`)
	focus(`document.querySelector('#held details:not([hidden]) summary')`)
	p.do(chromedp.KeyEvent("\r"))
	p.wait("the slots", `document.querySelector('#held details[open]').innerText.includes('slot-a')`)
	row := `[...document.querySelectorAll('#held tbody tr')].find(r => r.innerText.includes('two'))`
	focus(row + `.querySelector('button')`)
	p.do(chromedp.KeyEvent("\r"))
	p.wait("the question", `document.querySelector('#release').open && document.activeElement.id === 'release-no' &&
		document.querySelector('#release-key').innerText === 'two\\r\\nlines\\x00'`)
	p.shoot(filepath.Join(t.ArtifactDir(), "release.png"))
	p.do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	p.wait("the release", `document.querySelector('#said').innerText.startsWith('Released two') && !document.querySelector('#release').open`)
	p.wait("that it is gone", `!`+row)
}

// 500 locks appear in pages of the table, sorted as a whole, and quickly. Next loads what is
// missing.
func testMany(t *testing.T, p *tab) {
	const next = `document.querySelector('#held .pager button:last-child')`
	p.search("order:")
	p.wait("a page of them", `document.querySelectorAll('#held td.key').length === 25 && !document.querySelector('#search-go').disabled`)
	const place = `document.querySelector('#held .pager span').innerText`
	for last := 0; !eval[bool](p, next+`.disabled`); {
		before := eval[string](p, place)
		var from, to int
		if _, err := fmt.Sscanf(before, "%d to %d", &from, &to); err != nil || from > last+1 || to < last {
			t.Fatalf("got %q after row %d", before, last)
		}
		last = to
		eval[bool](p, "("+next+".click(), true)")
		p.wait("more rows", place+fmt.Sprintf(" !== %q", before))
	}
	p.wait("all of them", `document.querySelector('#held-count').innerText === '500 locks' && document.querySelector('#held .pager span').innerText === '476 to 500 of 500'`)
	took := eval[float64](p, `(() => {
  const start = performance.now();
  const key = document.querySelectorAll('#held th')[0];
  do key.querySelector('button').click(); while (key.getAttribute('aria-sort') !== 'descending');
  document.body.offsetHeight;
  return performance.now() - start;
})()`)
	t.Logf("500 locks are sorted and laid out in %.0f ms", took)
	if took > 500*float64(lab.Slack) {
		t.Errorf("sorting 500 locks takes %.0f ms", took)
	}
	if first := p.text("#held td.key"); !strings.HasPrefix(first, "order:499") {
		t.Errorf("got last key by name %q", first)
	}
	p.everyWidth(t, "500-locks")
}
