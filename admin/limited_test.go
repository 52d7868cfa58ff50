package admin

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHealthBesideCrowd: a health check is answered within a second beside a thousand connections
// whose requests take long, or that do not read their answers. Requests that are quick are never
// cut.
func TestHealthBesideCrowd(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux, few := http.NewServeMux(), newLimited(ln, 16)
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/long", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) })
	server := &http.Server{Handler: few.whole(mux), ConnState: few.note, ConnContext: keepConn,
		ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(few) }()
	defer func() {
		server.Close()
		<-served
	}()
	for name, said := range map[string]string{"silent": "", "long": "/long", "not read": "/large"} {
		t.Run(name, func(t *testing.T) {
			for range 1000 {
				conn, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if said != "" { // one that had to go does not matter
					_, _ = io.WriteString(conn, strings.Repeat(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: a\r\n\r\n", said), 20))
				}
			}
			client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + ln.Addr().String() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("/healthz: %d", resp.StatusCode)
			}
		})
	}
}
