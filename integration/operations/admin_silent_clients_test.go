package operations

import (
	"testing"

	"lockproxy/integration/lab"
)

// Any number of clients of admin-listen with incomplete or slow requests does not delay a health
// check.
func TestSilentOperatorsDelayNoHealthCheck(t *testing.T) {
	t.Parallel()
	const connections = 1000
	o := lab.StartOperators(t)
	for name, said := range map[string]string{
		"silent":        "",
		"half a header": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n",
		"answered once": "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"no body":       "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n",
		"half a body":   "PUT /log-level HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"long work":     "GET /debug/pprof/heap?seconds=20 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"the page":      "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"a long body":   "GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 70000\r\n\r\nx",
	} {
		t.Run(name, func(t *testing.T) {
			for range connections {
				_ = lab.Dial(t, o.Addr).Put(said) // the proxy may have closed it
			}
			if code, text := o.Get("GET", "/healthz", "", ""); code != 200 {
				t.Errorf("/healthz: got %d %q, want 200 ok", code, text)
			}
		})
	}
}
