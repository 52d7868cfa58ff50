// Package browser opens the operators' page of a running lockproxy in Chromium. It is a module of
// its own, so that builds of lockproxy do not download the package that drives the browser. It
// has only tests: (cd integration/browser && go test .)
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }

// patience bounds every wait for the page, on a busy machine.
const patience = 20 * time.Second

// tab is one page in a browser of its own.
type tab struct {
	testing.TB
	ctx context.Context

	mu     sync.Mutex
	faults []string // found by the browser
}

// openTab starts Chromium. Without it the test is skipped, even if CI is set: it is large, and no
// other test needs it.
func openTab(t testing.TB) *tab {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("Chromium is not installed: apt-get install --no-install-recommends chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.WindowSize(1280, 900))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	p := &tab{TB: t, ctx: ctx}
	t.Cleanup(func() {
		end()
		endAllocator()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			t.Error(fault)
		}
	})
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	return p
}

// listen records the faults that the browser reports: errors of scripts, and violations of the
// content policy.
func (p *tab) listen(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = fmt.Sprintf("a script failed: %s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *log.EventEntryAdded:
		// a proxy that is away is no fault of the page
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			fault = "the browser says: " + e.Entry.Text + " " + e.Entry.URL
		}
	}
	if fault != "" {
		p.mu.Lock()
		p.faults = append(p.faults, fault)
		p.mu.Unlock()
	}
}

// do runs actions one after the other.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 2*patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression.
func eval[T any](p *tab, script string) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 2*patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	if err != nil {
		p.Fatalf("%s: %v", script, err)
	}
	return value
}

// wait waits until the expression is true, and returns how long that took.
func (p *tab) wait(what, script string) time.Duration {
	p.Helper()
	start := time.Now()
	if !lab.Poll(patience, func() bool { return eval[bool](p, "Boolean("+script+")") }) {
		p.Fatalf("the page does not show %s:\n%s", what, eval[string](p, "document.body.innerText"))
	}
	return time.Since(start)
}

// text returns the text of an element.
func (p *tab) text(selector string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// look sets the size of the page in CSS pixels, and whether it is dark.
func (p *tab) look(width, height int64, scale float64, dark bool) {
	p.Helper()
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		size := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: scale,
			Mobile: width < 600}
		if _, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, size); err != nil {
			return err
		}
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme",
			Value: scheme}}}
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
		return err
	}))
}

// shoot saves a picture of the whole page.
func (p *tab) shoot(path string) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 2*patience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, picture, 0o644); err != nil {
		p.Fatal(err)
	}
}
