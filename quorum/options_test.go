package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	_, err := New(Options{Masters: []MasterOptions{{DB: -1, Network: "udp"}}, KeyPrefix: "lockproxy:x"})
	for _, want := range []string{"master 1 has no address", `network "udp"`, "database -1", "key prefix", "master timeout", "max ttl"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := New(Options{MasterTimeout: 1, MaxTTL: 8761 * time.Hour}); err == nil || !strings.Contains(err.Error(), "max ttl 8761h") {
		t.Errorf("%v does not refuse a max ttl of more than a year", err)
	}
	if _, err := New(Options{MasterTimeout: 1, MaxTTL: time.Second}); err == nil || !strings.Contains(err.Error(), "no masters") {
		t.Errorf("%v does not say no masters", err)
	}
	if _, err := New(Options{Masters: make([]MasterOptions, 32), MasterTimeout: 1, MaxTTL: time.Second}); err == nil || !strings.Contains(err.Error(), "32 masters, at most 31") {
		t.Errorf("%v does not refuse 32 masters", err)
	}
}

func TestInvalidRequests(t *testing.T) {
	q := dialQuorum(t, []string{"127.0.0.1:1"})
	for _, r := range []Request{
		{Key: "a", Mode: Limited}, {Key: "a", Mode: Limited, Limit: MaxLimit + 1}, {Key: "a", Mode: Kept},
		{Key: "a", Keys: []string{"a"}}, {Key: "a", Keys: []string{"b", "c", "b"}}, {Key: "a", Keys: []string{"b"}, Mode: Shared},
		{Key: "a", Keys: make([]string, MaxKeys)},
	} {
		r.TTL = time.Second
		if _, err := q.Acquire(t.Context(), r); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
