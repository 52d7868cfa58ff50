package main

import (
	"fmt"
	"sync"
	"time"
)

// holders are clients that hold locks while others load the proxy: SESSION locks, which the proxy
// renews, and plain ones, which they extend themselves.
type holders struct {
	order    loadOrder
	sessions []*holder
	plain    []*holder
}

// holder is one of them. Of the worker it has the key and the errors; locks are its EXTENDs.
type holder struct {
	*client
	worker
	token string
}

const (
	sessionTTL  = "2s"
	extendEvery = 500 * time.Millisecond
)

// prepare takes the locks, in calm.
func (h *holders) prepare() (err error) {
	if h.sessions, err = h.take(h.order.Sessions, "session", sessionTTL, "SESSION"); err != nil {
		return err
	}
	h.plain, err = h.take(h.order.Holders, "holder", lockTTL)
	return err
}

// take locks n keys, each on a connection of its own.
func (h *holders) take(n int, name string, options ...string) (list []*holder, err error) {
	for i := range n {
		one := &holder{worker: worker{key: fmt.Sprintf("%s-%d", name, i)}}
		if one.client, err = dial(h.order.Addrs[0]); err != nil {
			return nil, err
		}
		one.conn.SetDeadline(time.Now().Add(h.order.Span + time.Minute))
		line, token, err := one.do(append([]string{"LOCK", one.key}, options...)...)
		if err == nil && token == nil {
			err = fmt.Errorf("LOCK: %q", line)
		}
		if err != nil {
			return nil, err
		}
		one.token = string(token)
		list = append(list, one)
	}
	return list, nil
}

func (h *holders) run() (r loadResult, err error) {
	begun := time.Now()
	var wg sync.WaitGroup
	for i, one := range h.plain {
		first := extendEvery * time.Duration(i) / time.Duration(len(h.plain))
		wg.Go(func() { one.extend(begun.Add(first), begun.Add(h.order.Span)) })
	}
	time.Sleep(time.Until(begun.Add(h.order.Span)))
	wg.Wait()
	fmt.Println("done")
	r.Kinds = map[string]int{}
	for _, one := range h.plain {
		for _, took := range one.locks {
			r.Slowest = max(r.Slowest, micros(took))
		}
		r.Extends, r.Failed = r.Extends+len(one.locks), r.Failed+one.failed
		for kind, n := range one.kinds {
			r.Kinds[kind] += n
		}
	}
	for _, one := range h.sessions {
		held, err := one.held()
		if err != nil {
			return r, err
		}
		if !held {
			r.Lost++
		}
	}
	return r, nil
}

// extend extends a plain lock again and again until the end.
func (one *holder) extend(next, end time.Time) {
	for ; next.Before(end); next = next.Add(extendEvery) {
		time.Sleep(time.Until(next))
		sent := time.Now()
		line, _, err := one.do("EXTEND", one.key, one.token, lockTTL)
		one.locks = append(one.locks, time.Since(sent))
		if err == nil && string(line) != ":1\r\n" {
			err = fmt.Errorf("EXTEND: %q", line)
		}
		if err != nil {
			one.fail(err)
		}
	}
}

// held returns whether a session lock was kept. It asks until the answer is 0 or 1.
func (one *holder) held() (bool, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		line, _, err := one.do("EXTEND", one.key, one.token, sessionTTL)
		switch text := string(line); {
		case err != nil:
			return false, err
		case text == ":1\r\n" || text == ":0\r\n":
			return text == ":1\r\n", nil
		case time.Now().After(deadline):
			return false, fmt.Errorf("EXTEND of a session lock: %q", line)
		}
	}
}
