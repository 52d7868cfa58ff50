package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler serves every address.
func (s *Site) handler() http.Handler {
	mux, profiles := http.NewServeMux(), atMost(maxProfiles)
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Registry: s.registry})
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /readyz", s.readyz)
	protected := map[string]http.Handler{
		"GET /metrics": metrics, "GET /{$}": http.HandlerFunc(servePage), "GET /page/{name}": http.HandlerFunc(servePage),
		"GET /operations":        http.HandlerFunc(serveOperations),
		"GET /events":            http.HandlerFunc(s.events),
		"GET /locks":             http.HandlerFunc(s.listLocks),
		"GET /why":               http.HandlerFunc(s.why),
		"POST /release":          http.HandlerFunc(s.release),
		"GET /debug/pprof/":      profiles(pprof.Index),
		"GET /debug/pprof/trace": profiles(pprof.Trace), "GET /debug/pprof/profile": profiles(pprof.Profile),
		"GET /debug/pprof/cmdline": http.NotFoundHandler(), // it may show passwords
		"GET /debug/pprof/symbol":  http.HandlerFunc(pprof.Symbol),
		"POST /debug/pprof/symbol": http.HandlerFunc(pprof.Symbol),
	}
	if s.o.LogLevel != nil {
		level := http.MaxBytesHandler(s.o.LogLevel, 1<<10)
		protected["GET /log-level"], protected["PUT /log-level"] = level, level
	}
	for pattern, h := range protected {
		mux.Handle(pattern, s.protect(h))
	}
	return http.NewCrossOriginProtection().Handler(s.guard(mux))
}

// atMost returns a wrapper that lets n requests run at a time, of all handlers together, and
// refuses the others: they cost processor time that a health check needs.
func atMost(n int) func(http.HandlerFunc) http.Handler {
	places := make(chan struct{}, n)
	return func(next http.HandlerFunc) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case places <- struct{}{}:
				defer func() { <-places }()
				next(w, r)
			default:
				w.Header().Set("Retry-After", "5")
				http.Error(w, "too many profiles are being made", http.StatusServiceUnavailable)
			}
		})
	}
}

// guard sets the headers of every answer, and refuses requests that a page of another site makes a
// browser send.
func (s *Site) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", contentPolicy)
		if s.o.Local && s.o.Token() == "" && !localName(r.Host) {
			// With a name that points here (DNS rebinding) this server would be part of another
			// site.
			http.Error(w, "ask for this address by number or as localhost, or set admin-token-file",
				http.StatusMisdirectedRequest)
			return
		}
		if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate" {
			http.Error(w, "not for pages of other sites", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localName reports whether a Host header is an IP address or localhost, with any port, or empty,
// which no browser sends.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || host == ""
}

// protect asks for the token.
func (s *Site) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.known(r) {
			w.Header().Set("WWW-Authenticate", `Basic realm="lockproxy", charset="UTF-8"`)
			http.Error(w, "the admin-token is missing or wrong", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// known reports whether r shows the token, if one is set. The comparison takes constant time.
func (s *Site) known(r *http.Request) bool {
	token := s.o.Token()
	if token == "" {
		return true
	}
	_, given, ok := r.BasicAuth()
	if scheme, rest, found := strings.Cut(r.Header.Get("Authorization"), " "); found &&
		strings.EqualFold(scheme, "Bearer") {
		given, ok = strings.TrimSpace(rest), true
	}
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1 && ok
}

// healthz answers ok.
func (s *Site) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// readyz reports whether commands are relayed: the upstream answers. With ?locks a majority of the
// masters must be able to vote, too. Clients with the token see the reasons.
func (s *Site) readyz(w http.ResponseWriter, r *http.Request) {
	asked := r.URL.Query()
	for name := range asked {
		if name != "locks" {
			http.Error(w, "readyz takes no parameter but locks", http.StatusBadRequest)
			return
		}
	}
	state := s.o.State()
	missing := state.missing(asked.Has("locks"))
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(missing) == 0 {
		_, _ = w.Write([]byte("ready\n"))
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	text := "not ready\n"
	if s.known(r) {
		text += strings.Join(missing, "\n") + "\n"
	}
	_, _ = w.Write([]byte(text))
}
