package lab

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Operators is a deployment with admin-listen.
type Operators struct {
	*Lab
	T    *testing.T
	Addr string // of admin-listen
}

// StartOperators starts a deployment with more flags.
func StartOperators(t *testing.T, flags ...string) *Operators {
	t.Helper()
	addr := FreeAddr(t)
	return &Operators{Start(t, Config{Flags: append([]string{"--admin-listen", addr}, flags...)}), t, addr}
}

// Get sends an HTTP request for a path, with a token unless that is empty.
func (o *Operators) Get(method, path, token, body string) (code int, text string) {
	o.T.Helper()
	r, err := http.NewRequestWithContext(o.T.Context(), method, "http://"+o.Addr+path, strings.NewReader(body))
	if err != nil {
		o.T.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // for any body, like curl -d
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		o.T.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.T.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Metric returns the value of one series, which must exist.
func (o *Operators) Metric(series string) float64 {
	o.T.Helper()
	_, text := o.Get("GET", "/metrics", "", "")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				o.T.Fatal(err)
			}
			return v
		}
	}
	o.T.Fatalf("/metrics: got no series %s, want one", series)
	return 0
}

// LiveHeap returns the size of the proxy's heap after a garbage collection, in MB.
func (o *Operators) LiveHeap() float64 {
	o.T.Helper()
	for range 2 { // pools keep their contents during one collection
		o.Get("GET", "/debug/pprof/heap?gc=1&debug=1", "", "")
	}
	_, text := o.Get("GET", "/debug/pprof/heap?gc=1&debug=1", "", "")
	_, rest, _ := strings.Cut(text, "# HeapAlloc = ")
	var bytes int
	if _, err := fmt.Sscan(rest, &bytes); err != nil {
		o.T.Fatalf("profile: got no HeapAlloc (%v), want a number", err)
	}
	return float64(bytes) / (1 << 20)
}
