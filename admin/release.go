package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"lockproxy/stat"
)

const (
	releaseTime = 5 * time.Second
	maxKey      = 1024 // bytes
	// pageHeader is a header that only a page of this server can make a browser send.
	pageHeader = "X-Lockproxy"
)

// operator is who sends a request that protect has let through.
func (s *Site) operator(client net.Addr) stat.Operator {
	return stat.Operator{Client: client, Unix: s.o.Unix, Token: s.o.Token() != ""}
}

// whyNoRelease returns the reason why the page may not release locks, or "" if it may.
func (s *Site) whyNoRelease() string {
	if s.o.Release == nil {
		return "not here"
	}
	if err := s.o.MayRelease(s.operator(nil)); err != nil {
		return s.o.Explain(err)
	}
	return ""
}

// release serves POST /release with {"key": hex digits, "fence": decimal digits}, and answers
// {"freed": true}, or false if there was no such lock any more. The key is in hex because JSON
// strings cannot hold arbitrary bytes. Two checks refuse pages of other sites: the browser names
// the origin of a request, and only this page can send the header.
func (s *Site) release(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(pageHeader) == "" || r.Header.Get("Content-Type") != "application/json" {
		text := "a release needs the header " + pageHeader + " and a body of application/json"
		http.Error(w, text, http.StatusForbidden)
		return
	}
	if s.o.Release == nil {
		http.NotFound(w, r)
		return
	}
	key, fence, ok := parseRelease(w, r)
	if !ok {
		text := `want {"key": hex digits of 1 to 1024 bytes, "fence": decimal digits}`
		http.Error(w, text, http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTime)
	defer cancel()
	freed, err := s.o.Release(ctx, s.operator(clientOf(r)), key, fence)
	if err != nil {
		code := http.StatusBadGateway
		if errors.Is(err, fs.ErrPermission) {
			code = http.StatusForbidden
		}
		http.Error(w, s.o.Explain(err), code)
		return
	}
	s.locks.forget()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]bool{"freed": freed})
}

func parseRelease(w http.ResponseWriter, r *http.Request) (key string, fence uint64, ok bool) {
	var body struct{ Key, Fence string }
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 4*maxKey)).Decode(&body) != nil {
		return "", 0, false
	}
	raw, err := hex.DecodeString(body.Key)
	if err != nil || len(raw) == 0 || len(raw) > maxKey {
		return "", 0, false
	}
	fence, err = strconv.ParseUint(body.Fence, 10, 64)
	return string(raw), fence, err == nil
}

// clientOf returns the address of the client.
func clientOf(r *http.Request) net.Addr {
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return net.TCPAddrFromAddrPort(at)
	}
	return &net.UnixAddr{Net: "unix"}
}
