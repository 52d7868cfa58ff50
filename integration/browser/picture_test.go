package browser

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	stop := make(chan struct{})
	done := make(chan struct{}, 64)
	clients := 0
	client := func(f func(c *lab.Client)) {
		c := lab.Dial(t, d.Proxies[0].Addr)
		clients++
		go func() {
			defer func() { done <- struct{}{} }()
			for {
				select {
				case <-stop:
					return
				default:
					f(c)
				}
			}
		}()
	}
	start := time.Now()
	pause := func(base time.Duration) { // it varies over the minutes
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
			if token := lab.TokenOf(c.Do("LOCK", key, "10s", "WAIT", "30s", "OWNER", fmt.Sprintf("worker-%d", i))); token != "" {
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
	holder := lab.Dial(t, d.Proxies[0].Addr)
	for i, key := range []string{"deploy:production", "import:customers", "invoice:2041", "leader:billing", "leader:search", "migrate:0042", "report:nightly"} {
		holder.Do("LOCK", key, "30s", "SESSION", "OWNER", []string{"ci-7", "etl-2", "billing-1", "billing-3", "search-1", "release-bot", "cron-1"}[i])
	}
	for i := range 3 {
		holder.Do("LOCK", "pool:workers", "30s", "LIMIT", "4", "SESSION", "OWNER", fmt.Sprintf("import-%d", i))
		holder.Do("LOCK", "stock:prices", "30s", "SHARED", "SESSION", "OWNER", fmt.Sprintf("shop-%d", i))
	}
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
	close(stop)
	for range clients {
		<-done
	}
}
