package netpoll

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"time"
)

// A socket that is put into the queue is processed once more, although it has no bytes to read,
// after the sockets that were there before.
func TestRequeuedSocketGoesLast(t *testing.T) {
	r := newRing(t, 3, "tcp", nil)
	r.bring(t, 1, 2)
	r.w.look()
	r.conns[0].Requeue()
	r.conns[0].Requeue() // it is in the queue
	r.batches(t, 3)
	if !slices.Equal(r.used, []int{1, 2, 0}) {
		t.Errorf("used %v, want 1, 2, 0", r.used)
	}
	if r.w.serveBatch(); len(r.used) != 3 {
		t.Errorf("used %v: once too often", r.used)
	}
}

// Who puts itself into the queue while it is used has its turn after the others.
func TestRequeueWhileUsed(t *testing.T) {
	var r *ring
	r = newRing(t, 2, "tcp", func(i int) bool {
		if i == 0 && len(r.used) < 5 {
			r.conns[0].Requeue()
		}
		return false
	})
	r.bring(t, 0, 1)
	r.batches(t, 5)
	if want := []int{0, 1, 0, 0, 0}; !slices.Equal(r.used, want) {
		t.Errorf("used %v, want %v", r.used, want)
	}
	if r.w.serveBatch(); len(r.used) != 5 {
		t.Errorf("used %v: once too often", r.used)
	}
}

// The call that Requeue asks for comes before the end of the input.
func TestRequeueBeforeEnd(t *testing.T) {
	r := newRing(t, 1, "tcp", nil)
	r.others[0].Close()
	eventually(t, "the end is there", func() bool {
		r.w.look()
		return len(r.ls.ready) > 0
	})
	r.conns[0].Requeue()
	if r.w.serveBatch(); len(r.used) != 1 || len(r.ends[0].end) > 0 {
		t.Fatalf("used %d times, %d ends; want the use first", len(r.used), len(r.ends[0].end))
	}
	if r.w.serveBatch(); len(r.used) != 1 || len(r.ends[0].end) != 1 || <-r.ends[0].end != io.EOF {
		t.Errorf("used %d times, want the end behind the use", len(r.used))
	}
}

// The next watch finds no trace of one that has ended, and a deadline or Close is not kept
// waiting.
func TestRequeueAndEnd(t *testing.T) {
	var r *ring
	for name, end := range map[string]func(){
		"use":      func() {},
		"deadline": func() { r.conns[0].SetReadDeadline(time.Unix(1, 0)) },
		"close":    func() { r.conns[0].Close() },
	} {
		r = newRing(t, 1, "tcp", func(int) bool {
			r.conns[0].Requeue()
			end()
			return name == "use"
		})
		r.bring(t, 0)
		r.batches(t, 1)
		r.w.serveBatch()
		err := within(t, "end by "+name, r.ends[0].end)
		if want := map[string]error{"use": nil, "deadline": os.ErrDeadlineExceeded,
			"close": net.ErrClosed}[name]; err != want || len(r.used) != 1 {
			t.Errorf("%s: %v after %d uses, want %v after one", name, err, len(r.used), want)
		}
		r.conns[0].Requeue() // no loop watches it
		r.conns[0].SetReadDeadline(time.Time{})
		w := collect(r.conns[0], func() bool { t.Error("used by a new watch"); return true })
		r.w.serveBatch()
		if name == "close" {
			within(t, "refusal", w.end)
		}
	}
}

// A watch that is never served, because the loops are closed, ends all the same.
func TestRequeueAndCloseLoops(t *testing.T) {
	ls := NewPollers()
	if err := ls.openLocked(); err != nil {
		t.Fatal(err)
	}
	ls.workers[0] = &worker{loops: ls} // never runs
	c, _ := adopted(t, ls, "tcp")
	w := collect(c, nil)
	for range 2 { // first for what may be there to read
		c.Requeue()
	}
	c.Close()
	ls.Close()
	if err := within(t, "end", w.end); err != net.ErrClosed {
		t.Errorf("ended with %v", err)
	}
}

// A worker that is parked is woken.
func TestRequeueWakes(t *testing.T) {
	ls := freeLoops(t, 1)
	c, _ := adopted(t, ls, "tcp")
	used := make(chan struct{}, 10)
	collect(c, func() bool { used <- struct{}{}; return false })
	for range 20 {
		waitState(t, &c.in)
		eventually(t, "the worker is parked", func() bool {
			ls.mu.Lock()
			defer ls.mu.Unlock()
			return ls.awake == 0
		})
		c.Requeue()
		within(t, "use", used)
	}
}

// AfterBatch's function is called once for a batch, when all of it was served, and not for an
// empty one.
func TestAfterBatch(t *testing.T) {
	r := newRing(t, 3, "tcp", nil)
	var ends []int // uses so far
	r.ls.AfterBatch(func() { ends = append(ends, len(r.used)) })
	r.bring(t, 0, 1, 2)
	r.batches(t, 3)
	if last := len(ends) - 1; last > 2 || ends[last] != 3 {
		t.Errorf("batches ended after %v uses", ends)
	}
	before := len(ends)
	r.w.serveBatch()
	r.w.serveBatch()
	if len(ends) != before {
		t.Error("the function of AfterBatch was called for an empty batch")
	}
}

// A connection that is closed delivers the bytes that were written, or drops them.
func TestSetLinger(t *testing.T) {
	ls := freeLoops(t, 1)
	for sec, want := range map[int]string{0: "reset", -1: "EOF"} {
		t.Run(fmt.Sprintf("linger %d", sec), func(t *testing.T) {
			c, other := adopted(t, ls, "tcp")
			if err := SetLinger(c, 1+sec); err != nil { // the other way first
				t.Fatal(err)
			}
			if err := SetLinger(c, sec); err != nil {
				t.Fatal(err)
			}
			c.Close()
			got := "reset"
			if _, err := other.Read(make([]byte, 1)); err == io.EOF {
				got = "EOF"
			}
			if got != want {
				t.Errorf("the other side got %s, want %s", got, want)
			}
		})
	}
}
