package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// idleCounts returns the numbers of idle connections, in the order in which they are opened:
// fewer at the end if the system limits the files of a process.
func (r *rig) idleCounts() []int { return []int{0, 1, 1000, min(10_000, r.mostClients()-20)} }

// idleShape is the load of the clients that are not idle.
var idleShape = relayCase{loadShape{"get", 64, 8, 1}, 0}

// idleReading is what one number of idle connections does.
type idleReading struct {
	reading
	resident float64 // bytes, of the proxy, before the active clients begin
	kernel   float64 // bytes, of the system
}

// idleKey is one cell over the rounds.
type idleKey struct {
	subject string
	count   int
}

// idleResults holds one reading a round.
type idleResults map[idleKey][]idleReading

func (res idleResults) series(subject string, n int, pick func(idleReading) float64) series {
	var s series
	for _, r := range res[idleKey{subject, n}] {
		s = append(s, pick(r))
	}
	return s
}

// each is what one of n connections adds to a figure.
func (res idleResults) each(subject string, n int, pick func(idleReading) float64) series {
	var s series
	none := res.series(subject, 0, pick)
	for i, v := range res.series(subject, n, pick) {
		s = append(s, (v-none[i])/float64(n)/1024)
	}
	return s
}

// measureIdle measures the cost of idle connections.
func measureIdle(r *rig, out *report) error {
	var subjects []relaySubject
	for _, s := range relaySubjects(r.options) {
		if s.name != "twemproxy" { // it shares its connections to the Redis
			subjects = append(subjects, s)
		}
	}
	res := idleResults{}
	for round := range r.rounds {
		r.note("idle, round %d of %d", round+1, r.rounds)
		for turn := range subjects {
			s := subjects[(turn+round)%len(subjects)]
			if err := r.idleRound(s, res); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	reportIdle(out, res, subjects, r.idleCounts())
	return nil
}

// idleRound goes through all counts with a subject, on a Redis of its own.
func (r *rig) idleRound(s relaySubject, res idleResults) error {
	first := len(r.procs)
	defer func() { r.endFrom(first) }()
	redis, err := r.redis("redis")
	if err != nil {
		return err
	}
	server, err := s.start(r, redis.addr)
	if err != nil {
		return err
	}
	if _, _, err := r.callers(server.addr, idleShape); err != nil { // warms up
		return err
	}
	var idle idlers
	defer func() { idle.close() }()
	rates := map[relayKey]float64{}
	for _, n := range r.idleCounts() {
		if err := idle.open(server.addr, n); err != nil {
			return fmt.Errorf("%d idle connections: %w", n, err)
		}
		if err := r.wait(500 * time.Millisecond); err != nil {
			return err
		}
		var got idleReading
		if server.process != nil {
			if got.resident, err = server.process.resident(); err != nil {
				return err
			}
		}
		if got.kernel, err = kilobytes("/proc/meminfo", "Slab:"); err != nil {
			return err
		}
		if got.reading, err = r.read(server, redis, idleShape, rates, relayKey{s.name, ""}); err != nil {
			return err
		}
		res[idleKey{s.name, n}] = append(res[idleKey{s.name, n}], got)
	}
	return nil
}

// idlers are connections that have said PING once, so that a proxy has dialled its side.
type idlers struct{ conns []net.Conn }

// idleFrom is how many addresses of the loopback network they come from, and openers how many are
// opened at a time.
const (
	idleFrom = 8
	openers  = 32
)

// open makes them n.
func (i *idlers) open(addr string, n int) error {
	var mu sync.Mutex
	var faults error
	var wg sync.WaitGroup
	places := make(chan int)
	for range openers {
		wg.Go(func() {
			for place := range places {
				conn, err := openIdle(addr, place)
				mu.Lock()
				if conn != nil {
					i.conns = append(i.conns, conn)
				}
				faults = errors.Join(faults, err)
				mu.Unlock()
			}
		})
	}
	for place := len(i.conns); place < n; place++ {
		places <- place
	}
	close(places)
	wg.Wait()
	return faults
}

// openIdle opens one connection, from one of several addresses of this machine.
func openIdle(addr string, place int) (net.Conn, error) {
	from := net.IPv4(127, 0, 0, byte(2+place%idleFrom))
	dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Now().Add(patience))
	defer conn.SetDeadline(time.Time{})
	const pong = "+PONG\r\n"
	got := make([]byte, len(pong))
	_, err1 := conn.Write([]byte("*1\r\n$4\r\nPING\r\n"))
	_, err2 := io.ReadFull(conn, got)
	err = errors.Join(err1, err2)
	if err == nil && string(got) != pong {
		err = fmt.Errorf("PING: %q", got)
	}
	return conn, err
}

func (i *idlers) close() {
	for _, c := range i.conns {
		c.Close()
	}
}
