package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// single is one client that sends a request when the reply to the last one is there. It blocks in the system, not in Go's
// scheduler, so that its own part of the latency is small and steady.
type single struct {
	order   loadOrder
	fd      int
	file    *os.File // keeps fd open
	request []byte
	reply   []byte // as it must be
	buffer  []byte
}

func (s *single) prepare() error {
	conn, err := net.DialTimeout("tcp", s.order.Addrs[0], patience)
	if err != nil {
		return err
	}
	if s.file, err = conn.(*net.TCPConn).File(); err != nil {
		return err
	}
	conn.Close()
	s.fd = int(s.file.Fd())
	if err := syscall.SetNonblock(s.fd, false); err != nil {
		return err
	}
	value := strings.Repeat("x", s.order.Size)
	s.request = fmt.Appendf(nil, "*2\r\n$3\r\nGET\r\n$7\r\nlatency\r\n")
	s.reply = fmt.Appendf(nil, "$%d\r\n%s\r\n", len(value), value)
	set := fmt.Appendf(nil, "*3\r\n$3\r\nSET\r\n$7\r\nlatency\r\n%s", s.reply)
	if s.order.Command == "set" {
		s.request, s.reply = set, []byte("+OK\r\n")
	}
	s.buffer = make([]byte, len(s.reply))
	if err := s.exchange(set, []byte("+OK\r\n")); err != nil {
		return err
	}
	for range 1000 {
		if err := s.exchange(s.request, s.reply); err != nil {
			return err
		}
	}
	return nil
}

// exchange sends a request and reads the reply.
func (s *single) exchange(request, want []byte) error {
	if _, err := syscall.Write(s.fd, request); err != nil {
		return err
	}
	got := s.buffer[:0]
	if cap(got) < len(want) {
		got = make([]byte, 0, len(want))
	}
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

func (s *single) run() (loadResult, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	times := make([]time.Duration, 0, int(200_000*s.order.Span.Seconds()))
	begun := time.Now()
	deadline := begun.Add(s.order.Span)
	for sent := begun; sent.Before(deadline); {
		if err := s.exchange(s.request, s.reply); err != nil {
			return loadResult{}, err
		}
		now := time.Now()
		times = append(times, now.Sub(sent))
		sent = now
	}
	fmt.Println("done")
	r := loadResult{Pairs: len(times), Seconds: time.Since(begun).Seconds()}
	r.LockP50, r.LockP99, r.Longest = quantiles(times)
	return r, nil
}
