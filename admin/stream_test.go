package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// serve answers on a real socket.
func (f *fixture) serve(t *testing.T) (url string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go f.Serve(ln)
	return "http://" + ln.Addr().String()
}

// TestStreamSendsHistoryThenReports: first the history and a report, then one a second; so many
// may look and no more; the end of the server ends it.
func TestStreamSendsHistoryThenReports(t *testing.T) {
	f := newFixture(t, nil)
	url := f.serve(t)
	var bodies []io.ReadCloser
	for range maxWatching {
		resp, err := http.Get(url + "/events")
		if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("%v %v", resp, err)
		}
		bodies = append(bodies, resp.Body)
	}
	if resp, err := http.Get(url + "/events"); err != nil || resp.StatusCode != 503 {
		t.Errorf("one too many: %v %v", resp.Status, err)
	}
	events := readEvents(t, bodies[0], 4)
	if want := []string{"history", "report", "report", "report"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
	f.Close(t.Context())
	for _, b := range bodies {
		if _, err := io.Copy(io.Discard, b); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) &&
			!errors.Is(err, bufio.ErrBufferFull) {
			t.Logf("end of a stream: %v", err)
		}
	}
}

// readEvents returns the names of the first n events, and checks the reports among them. Reports
// after the second event have a sample.
func readEvents(t *testing.T, body io.Reader, n int) (events []string) {
	t.Helper()
	lines := bufio.NewScanner(body)
	for len(events) < n && lines.Scan() {
		name, isEvent := strings.CutPrefix(lines.Text(), "event: ")
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if isEvent {
			events = append(events, name)
		}
		if isData && events[len(events)-1] == "report" {
			if r := checkReport(t, data); len(events) > 2 && r.Sample == nil {
				t.Error("a report without a sample")
			}
		}
	}
	return events
}

// checkReport reads a report about someState.
func checkReport(t *testing.T, data string) (r report) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), &r); err != nil || len(r.Masters) != 3 || r.Voting != 2 ||
		r.Masters[2].VotesIn != 59000 || r.Masters[2].Errors != 7 ||
		r.Waiting[0].Key != "a<b>" || strings.Contains(data, "<b>") {
		t.Errorf("%v: %s", err, data)
	}
	return r
}

// TestSlowWatcherIsDropped: a client that does not read is dropped, and the others go on.
func TestSlowWatcherIsDropped(t *testing.T) {
	var s stream
	slow, _, _ := s.join()
	quick, _, _ := s.join()
	for i := range maxLag + 2 {
		s.publish(Sample{At: int64(i)}, func() []byte { return []byte("r") })
		if _, ok := <-quick; !ok {
			t.Fatal("the quick one was dropped")
		}
	}
	for range maxLag {
		<-slow
	}
	if _, ok := <-slow; ok {
		t.Error("the slow one was not dropped")
	}
	for i := range 2 * keepSamples {
		s.publish(Sample{At: int64(i)}, noReport)
		<-quick
	}
	if _, history, _ := s.join(); len(history) != keepSamples || history[keepSamples-1].At != 2*keepSamples-1 {
		t.Errorf("%d samples are kept", len(history))
	}
}

func noReport() []byte { return nil }

// TestConnectionsBeyondTheLimitWait: connections beyond the limit wait until another is closed,
// and Close ends the waiting.
func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := newLimited(inner, 1)
	accepted := make(chan net.Conn, 2)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first := <-accepted
	select {
	case <-accepted:
		t.Error("a second connection was accepted")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // gives one place back, not two
	<-accepted
	ln.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the end is %v", err)
	}
}

// TestIdleConnectionsGiveWay: a health check need not wait even if idle clients use all
// connections.
func TestIdleConnectionsGiveWay(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, nil)
	go f.Serve(ln)
	ask := func() error {
		c, err := net.DialTimeout("tcp", ln.Addr().String(), time.Second)
		if err != nil {
			return err
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		_, err = http.ReadResponse(bufio.NewReader(c), nil)
		return err
	}
	for i := range MaxConnections + 20 {
		if err := ask(); err != nil {
			t.Fatalf("with %d connections open: %v", i, err)
		}
	}
}
