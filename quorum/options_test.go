package quorum

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		says []string
	}{
		"many faults": {
			Options{Masters: []MasterOptions{{DB: -1, Network: "udp"}}, KeyPrefix: "lockproxy:x"},
			[]string{"master 1 has no address", `network "udp"`, "database -1", "key prefix", "master timeout",
				"max ttl"},
		},
		"max-ttl above a year": {Options{MasterTimeout: 1, MaxTTL: 8761 * time.Hour}, []string{"max ttl 8761h"}},
		"no masters":           {Options{MasterTimeout: 1, MaxTTL: time.Second}, []string{"no masters"}},
		"32 masters": {Options{Masters: make([]MasterOptions, 32), MasterTimeout: 1, MaxTTL: time.Second},
			[]string{"32 masters, at most 31"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.o)
			for _, want := range c.says {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %q", err, want)
				}
			}
		})
	}
}

func TestInvalidRequests(t *testing.T) {
	q := dialQuorum(t, []string{"127.0.0.1:1"})
	for name, r := range map[string]Request{
		"without a limit":         {Key: "a", Mode: Limited},
		"above the highest limit": {Key: "a", Mode: Limited, Limit: MaxLimit + 1},
		"a mode only of replies":  {Key: "a", Mode: Kept},
		"the key twice":           {Key: "a", Keys: []string{"a"}},
		"a further key twice":     {Key: "a", Keys: []string{"b", "c", "b"}},
		"several keys shared":     {Key: "a", Keys: []string{"b"}, Mode: Shared},
		"too many keys":           {Key: "a", Keys: make([]string, MaxKeys)},
	} {
		t.Run(name, func(t *testing.T) {
			r.TTL = time.Second
			if _, err := q.Acquire(t.Context(), r); !errors.Is(err, ErrInvalidRequest) {
				t.Errorf("%v, want ErrInvalidRequest", err)
			}
		})
	}
}
