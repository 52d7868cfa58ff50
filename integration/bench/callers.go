package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// callers are clients that each send a request when the reply to the last one is there.
type callers struct {
	order loadOrder
	list  []*caller
}

// caller is one of them. It blocks in the system, not in Go's scheduler, so that its own part of
// the latency is small and steady.
type caller struct {
	fd      int
	file    *os.File // keeps fd open
	request []byte
	reply   []byte // as it must be
	buffer  []byte
	times   []time.Duration
}

func (s *callers) prepare() error {
	for range s.order.Workers {
		c, err := newCaller(s.order)
		if err != nil {
			return err
		}
		s.list = append(s.list, c)
	}
	return nil
}

func newCaller(order loadOrder) (*caller, error) {
	conn, err := net.DialTimeout("tcp", order.Addrs[0], patience)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	s := &caller{times: make([]time.Duration, 0, int(200_000*order.Span.Seconds())/order.Workers)}
	if s.file, err = conn.(*net.TCPConn).File(); err != nil {
		return nil, err
	}
	s.fd = int(s.file.Fd())
	if err := syscall.SetNonblock(s.fd, false); err != nil {
		return nil, err
	}
	value := strings.Repeat("x", order.Size)
	s.request = fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$7\r\nlatency\r\n")
	s.reply = fmt.Appendf(nil, "$%d\r\n%s\r\n", len(value), value)
	set := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$7\r\nlatency\r\n%s", s.reply)
	if order.Command == "set" {
		s.request, s.reply = set, []byte("+OK\r\n")
	}
	s.buffer = make([]byte, max(len(s.reply), len("+OK\r\n")))
	if err := s.exchange(set, []byte("+OK\r\n")); err != nil {
		return nil, err
	}
	warm := 500
	if order.Size > 64<<10 {
		warm = 5
	}
	for range warm {
		if err := s.exchange(s.request, s.reply); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// exchange sends a request and reads the reply.
func (s *caller) exchange(request, want []byte) error {
	if _, err := syscall.Write(s.fd, request); err != nil {
		return err
	}
	got := s.buffer[:0]
	for len(got) < len(want) {
		n, err := syscall.Read(s.fd, got[len(got):len(want)])
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("the connection ended behind %q", got)
		}
		got = got[:len(got)+n]
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("got %.80q, want %.80q", got, want)
	}
	return nil
}

func (s *callers) run() (loadResult, error) {
	begun := time.Now()
	deadline := begun.Add(s.order.Span)
	faults := make([]error, len(s.list))
	var wg sync.WaitGroup
	for i, c := range s.list {
		wg.Go(func() { faults[i] = c.call(deadline) })
	}
	wg.Wait()
	fmt.Println("done")
	r := loadResult{Seconds: time.Since(begun).Seconds()}
	var times []time.Duration
	for _, c := range s.list {
		times = append(times, c.times...)
	}
	r.Pairs = len(times)
	r.LockP50, r.LockP99, r.Longest = quantiles(times)
	return r, errors.Join(faults...)
}

// call exchanges requests and replies until the deadline.
func (s *caller) call(deadline time.Time) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for sent := time.Now(); sent.Before(deadline); {
		if err := s.exchange(s.request, s.reply); err != nil {
			return err
		}
		now := time.Now()
		s.times = append(s.times, now.Sub(sent))
		sent = now
	}
	return nil
}
