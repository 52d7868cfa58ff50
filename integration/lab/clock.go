package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	_ "embed"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is the wall clock of one server or of several. A preloaded library reads it from a page of
// memory. Before the first step or rate it shows the true time. Only one goroutine may use it.
type Clock struct {
	file, library string
	page          *clockPage
}

// clockPage is the page of memory; the first lines of clock.c describe its numbers.
type clockPage struct{ sequence, anchor, offset, rate int64 }

// preload builds the library once.
var preload = sync.OnceValues(func() (string, error) {
	source, library := filepath.Join(scratch, "clock.c"), filepath.Join(scratch, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return "", err
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", library, source).CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return library, err
})

// NewClock returns a clock for StartRedisWithClock. Without a C compiler the test is skipped, or
// fails if CI is set.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	Tool(t, "cc")
	library, err := preload()
	if err != nil {
		t.Fatalf("build the clock: %v", err)
	}
	file, err := os.CreateTemp(scratch, "clock-")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 4096
	if err := file.Truncate(size); err != nil {
		t.Fatal(err)
	}
	page, err := syscall.Mmap(int(file.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(page) })
	return &Clock{file: file.Name(), library: library, page: (*clockPage)(unsafe.Pointer(&page[0]))}
}

// StartRedisWithClock is StartRedis for a server with a clock of its own.
func StartRedisWithClock(t testing.TB, clock *Clock, args ...string) *Redis {
	t.Helper()
	return startRedis(t, place{clock: clock}, args)
}

// env returns the environment variables of a process with this clock.
func (c *Clock) env() []string {
	if c == nil {
		return nil
	}
	return []string{"LD_PRELOAD=" + c.library, "LOCKPROXY_CLOCK=" + c.file}
}

// Step moves the clock ahead by d, or back.
func (c *Clock) Step(d time.Duration) { c.change(func(offset, rate *int64) { *offset += int64(d) }) }

// Rate makes the clock run at so many times the true speed from now on: at 1.02 it gains 2 %.
func (c *Clock) Rate(speed float64) {
	c.change(func(offset, rate *int64) { *rate = int64((speed - 1) * float64(time.Second)) })
}

// Reset makes the clock show the true time again.
func (c *Clock) Reset() { c.change(func(offset, rate *int64) { *offset, *rate = 0, 0 }) }

// Lead returns how far the clock is ahead of the true time.
func (c *Clock) Lead() time.Duration { return c.leadAt(time.Now().UnixNano()) }

func (c *Clock) leadAt(now int64) time.Duration {
	return time.Duration(c.page.offset + int64(float64(now-c.page.anchor)*float64(c.page.rate)/1e9))
}

// change sets a new offset and rate from now on. Readers wait while the sequence is odd.
func (c *Clock) change(edit func(offset, rate *int64)) {
	now := time.Now().UnixNano()
	offset, rate := int64(c.leadAt(now)), c.page.rate
	edit(&offset, &rate)
	atomic.AddInt64(&c.page.sequence, 1)
	atomic.StoreInt64(&c.page.anchor, now)
	atomic.StoreInt64(&c.page.offset, offset)
	atomic.StoreInt64(&c.page.rate, rate)
	atomic.AddInt64(&c.page.sequence, 1)
}
