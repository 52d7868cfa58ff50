package browser

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lockproxy/integration/lab"
)

// TestPicture makes the picture of docs/operations.md, after five minutes of varied work:
// PICTURE=$PWD/../../admin/screenshot.png go test -run TestPicture .
func TestPicture(t *testing.T) {
	path := os.Getenv("PICTURE")
	if path == "" {
		t.Skip("PICTURE names no file")
	}
	path, _ = filepath.Abs(path)
	p := openTab(t)
	d := startDeployment(t, "60s", "--admin-commands", "on")
	end := d.variedWork(t)
	d.holdForPicture(t)
	p.look(1280, 900, 1, false)
	p.do(chromedp.Navigate(d.page))
	lab.Pass(t, 280*time.Second)
	d.Masters[3].RestartEmpty(t)
	lab.Pass(t, 17*time.Second)
	p.search("[dilmprs]*")
	p.wait("locks", `document.querySelectorAll('#held td.key').length >= 9`)
	lab.Pass(t, time.Second)
	p.shoot(path)
	p.look(1280, 900, 1, true)
	lab.Pass(t, 1200*time.Millisecond)
	p.shoot(filepath.Join(t.ArtifactDir(), "dark.png"))
	end()
}

// variedWork keeps clients busy until end: some lock and unlock, some wait, one sends commands to
// the upstream. Their pauses vary over the minutes.
func (d *deployment) variedWork(t *testing.T) (end func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	client := func(f func(c *lab.Client)) {
		c := lab.Dial(t, d.Proxies[0].Addr)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f(c)
				}
			}
		})
	}
	start := time.Now()
	pause := func(base time.Duration) {
		phase := time.Since(start).Minutes() * 2 * math.Pi / 2.3
		<-time.After(time.Duration(float64(base) * (1.6 + math.Sin(phase)) * (0.7 + 0.6*rand.Float64())))
	}
	for i := range 8 {
		client(func(c *lab.Client) {
			key := fmt.Sprintf("order:%d", rand.IntN(200))
			if token := lab.TokenOf(c.Do("LOCK", key, "10s", "OWNER", fmt.Sprintf("checkout-%d", i))); token != "" {
				pause(6 * time.Millisecond)
				c.Do("UNLOCK", key, token)
			}
			pause(9 * time.Millisecond)
		})
	}
	for i := range 7 {
		client(func(c *lab.Client) {
			key := []string{"stock:rebuild", "stock:rebuild", "mail:digest"}[i%3]
			owner := fmt.Sprintf("worker-%d", i)
			if token := lab.TokenOf(c.Do("LOCK", key, "10s", "WAIT", "30s", "OWNER", owner)); token != "" {
				pause(40 * time.Millisecond)
				c.Do("UNLOCK", key, token)
			}
		})
	}
	client(func(c *lab.Client) {
		for n := range 25 {
			c.Do("SET", "page", fmt.Sprint(n))
		}
		pause(10 * time.Millisecond)
	})
	return func() {
		close(stop)
		wg.Wait()
	}
}

// holdForPicture takes locks of each kind for as long as the test runs.
func (d *deployment) holdForPicture(t *testing.T) {
	holder := lab.Dial(t, d.Proxies[0].Addr)
	for _, l := range []struct{ key, owner string }{
		{"deploy:production", "ci-7"}, {"import:customers", "etl-2"}, {"invoice:2041", "billing-1"},
		{"leader:billing", "billing-3"}, {"leader:search", "search-1"}, {"migrate:0042", "release-bot"},
		{"report:nightly", "cron-1"},
	} {
		holder.Do("LOCK", l.key, "30s", "SESSION", "OWNER", l.owner)
	}
	for i := range 3 {
		holder.Do("LOCK", "pool:workers", "30s", "LIMIT", "4", "SESSION", "OWNER", fmt.Sprintf("import-%d", i))
		holder.Do("LOCK", "stock:prices", "30s", "SHARED", "SESSION", "OWNER", fmt.Sprintf("shop-%d", i))
	}
}
