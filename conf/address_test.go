package conf

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockproxy/plain"
)

func TestParseAddress(t *testing.T) {
	longest := strings.Repeat("s", 106)
	for text, want := range map[string]Address{
		"10.0.0.1:6379":             {Network: "tcp", Addr: "10.0.0.1:6379"},
		"Redis.Example:6379":        {Network: "tcp", Addr: "redis.example:6379"},
		"[::1]:6379":                {Network: "tcp", Addr: "[::1]:6379"},
		"redis://h:1":               {Network: "tcp", Addr: "h:1"},
		"redis://h":                 {Network: "tcp", Addr: "h:6379"},
		"redis://[2001:db8::1]":     {Network: "tcp", Addr: "[2001:db8::1]:6379"},
		"redis://h:1/":              {Network: "tcp", Addr: "h:1"},
		"redis://h:1/12":            {Network: "tcp", Addr: "h:1", DB: 12},
		"rediss://u:p@h:1/2":        {Network: "tcp", Addr: "h:1", User: "u", Password: "p", DB: 2, TLS: true},
		"redis://:p%40s%2Fs%3A@h:1": {Network: "tcp", Addr: "h:1", Password: "p@s/s:"},
		"redis://a%20b:c+d@h:1":     {Network: "tcp", Addr: "h:1", User: "a b", Password: "c+d"},
		"redis://u:p@q#:x@h:1":      {Network: "tcp", Addr: "h:1", User: "u", Password: "p@q#:x"},
		"unix:///run/redis.sock":    {Network: "unix", Addr: "/run/redis.sock"},
		"unix:///" + longest:        {Network: "unix", Addr: "/" + longest}, "unix:///s" + longest: {},
		"": {}, " ": {}, "h": {}, "h:": {}, ":1": {}, "h:0": {}, "h:65536": {}, "h:+1": {}, "h:x": {}, "::1:6379": {},
		"[h]:1": {}, "h:1/2": {}, "u:p@h:1": {}, "redis://": {}, "redis://:1": {}, "redis://u@h:1": {},
		"redis://u:@h:1": {}, "redis://:@h:1": {},
		"redis://h:1/x": {}, "redis://h:1/-1": {}, "redis://h:1/1/2": {}, "redis://h:1?db=1": {}, "redis://h:1/1#x": {},
		"redis://u:%zz@h:1": {},
		"redis://u:%2@h:1":  {}, "http://h:1": {}, "unix://run/x": {}, "unix:///": {}, "unix://": {}, "unix://u:p@/x": {},
		"h h:1": {}, "h\n:1": {},
		"tcp://h:1": {}, "m1@h:1": {}, "m1@redis://h:1": {}, "@h:1": {},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseAddress(text)
			if want.IsZero() != (err != nil) || got != want {
				t.Errorf("%q: got %#v %v, want %#v", text, got, err, want)
			}
		})
	}
}

func TestParseMaster(t *testing.T) {
	long := strings.Repeat("n", 64)
	for text, want := range map[string]Address{
		"h:1":                      {Network: "tcp", Addr: "h:1"},
		"redis://u:p@h:1/2":        {Network: "tcp", Addr: "h:1", User: "u", Password: "p", DB: 2},
		"unix:///run/a@b":          {Network: "unix", Addr: "/run/a@b"},
		"m1@10.0.0.1:6379":         {ID: "m1", Network: "tcp", Addr: "10.0.0.1:6379"},
		"M.1_a-b@[::1]:1":          {ID: "M.1_a-b", Network: "tcp", Addr: "[::1]:1"},
		"m1@redis://u:p%40x@h:1/1": {ID: "m1", Network: "tcp", Addr: "h:1", User: "u", Password: "p@x", DB: 1},
		"m1@rediss://:p@q@h":       {ID: "m1", Network: "tcp", Addr: "h:6379", Password: "p@q", TLS: true},
		"m1@unix:///run/a@b":       {ID: "m1", Network: "unix", Addr: "/run/a@b"},
		long + "@h:1":              {ID: long, Network: "tcp", Addr: "h:1"},
		long + "n@h:1":             {}, "@h:1": {}, "m 1@h:1": {}, "m/1@h:1": {}, "mé@h:1": {}, "m1@": {}, "m1@h": {},
		"m1@m2@h:1": {}, "m1@u:p@h:1": {},
		"u:p@h:1": {}, "m1@http://h:1": {}, "m1@redis://u@h:1": {},
	} {
		t.Run(text, func(t *testing.T) {
			a, err := ParseMaster(text)
			if want.IsZero() != (err != nil) || a != want {
				t.Errorf("%q: got %#v %v, want %#v", text, a, err, want)
			}
		})
	}
	for text, want := range map[string][2]string{ // Name, String
		"m1@redis://u:p@h:1/2": {"m1@h:1", "m1@redis://h:1/2"}, "m1@rediss://h:1": {"m1@h:1", "m1@rediss://h:1"},
		"m1@h:1": {"m1@h:1", "m1@h:1"}, "m1@unix:///x": {"m1@unix:///x", "m1@unix:///x"},
	} {
		t.Run(text, func(t *testing.T) {
			if a, err := ParseMaster(text); err != nil || a.Name() != want[0] || a.String() != want[1] {
				t.Errorf("%q: got %s and %s, %v; want %s and %s", text, a.Name(), a.String(), err, want[0], want[1])
			}
		})
	}
}

func TestParseListen(t *testing.T) {
	for text, want := range map[string]Address{
		"127.0.0.1:6380": {Network: "tcp", Addr: "127.0.0.1:6380"}, ":6380": {Network: "tcp", Addr: ":6380"},
		"127.0.0.1:0": {Network: "tcp", Addr: "127.0.0.1:0"}, "rediss://h:1": {Network: "tcp", Addr: "h:1", TLS: true},
		"unix:///x": {Network: "unix", Addr: "/x"}, "redis://u:p@h:1": {}, "h:1/1": {}, "redis://h:1/1": {}, "6380": {},
		"": {},
	} {
		t.Run(text, func(t *testing.T) {
			if got, err := parseListen(text); want.IsZero() != (err != nil) || got != want {
				t.Errorf("%q: got %#v %v, want %#v", text, got, err, want)
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	for text, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "LocalHost:1": true,
		"unix:///x": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "10.0.0.1:1": false, "h:1": false, "rediss://127.0.0.1:1": true,
	} {
		t.Run(text, func(t *testing.T) {
			a, err := parseListen(text)
			if err != nil || a.Loopback() != want {
				t.Errorf("%q: got %v %v, want %v", text, a.Loopback(), err, want)
			}
		})
	}
}

func TestAddressNeverPrintsItsPassword(t *testing.T) {
	a, err := ParseAddress("rediss://app:hush@h:1/3")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s %v %+v", a, a, a, a, []Address{a}, Config{Upstream: a}); strings.Contains(text,
		"hush") {
		t.Error(text)
	}
	if a.String() != "rediss://h:1/3" || a.Name() != "h:1" {
		t.Errorf("got %s, %s", a, a.Name())
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "5": -1, "0s": 0, "10ms": 10 * time.Millisecond, "60s": time.Minute, "2m": 2 * time.Minute, "1h": time.Hour,
		"007s": 7 * time.Second, "9223372036854ms": 9223372036854 * time.Millisecond,
		"": -1, "s": -1, "ms": -1, "-1": -1, "+1": -1, "1.5s": -1, " 1": -1, "1 s": -1, "1S": -1, "1sm": -1, "1mm": -1,
		"1hs": -1, "1m30s": 90 * time.Second, "1m0s": time.Minute, "1h2m3s": 3723 * time.Second, "0h0s": 0,
		"1h500ms": time.Hour + 500*time.Millisecond, "30s1m": -1, "1m30": -1, "1m1m": -1, "1m-30s": -1, "1m 30s": -1,
		"2562047h60m": -1, "9223372036854775807h1m": -1,
		"1us": -1, "1d": -1, "1_000": -1, "0x1": -1, "9223372036855ms": -1, "60": -1, "9999999999999999999": -1,
		"2562048h": -1, "١": -1,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseDuration(text)
			if (err != nil) != (want < 0) || err == nil && got != want {
				t.Errorf("%q: got %v %v, want %v", text, got, err, want)
			}
			if err == nil {
				if back, err := ParseDuration(plain.Duration(got)); err != nil || back != got {
					t.Errorf("%q: %s reads as %v, %v", text, plain.Duration(got), back, err)
				}
			}
		})
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"redis://u:p@h:1/2", "unix:///x", "[::1]:1", "h:1", "rediss://[::1]", "m1@h:1",
		"m1@redis://u:p@h:1/2",
		"m1@unix:///a@b", "m 1@h:1", "m1@m2@h:1", "@h:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		named, errNamed := ParseMaster(s)
		a, err := ParseAddress(s)
		switch {
		case errNamed != nil && err == nil:
			t.Errorf("%q: an address, but no master: %v", s, errNamed)
		case errNamed != nil:
			return
		case (named.ID == "") != (err == nil):
			t.Errorf("%q: as a master %#v, as an address %v", s, named, err)
		case err == nil && named != a:
			t.Errorf("%q: as a master %#v, as an address %#v", s, named, a)
		}
		if named.ID != "" && (!validName.MatchString(named.ID) || !strings.HasPrefix(named.Name(), named.ID+"@")) {
			t.Errorf("%q: %#v", s, named)
		}
		if named.Network == "tcp" && (named.Host() == "" ||
			strings.ContainsAny(strings.TrimPrefix(named.Name(), named.ID+"@"), "\r\n @")) {
			t.Errorf("%q: %#v", s, named)
		}
		again, err := ParseMaster(named.String())
		named.User, named.Password = "", ""
		if err != nil || again != named {
			t.Errorf("%q: %s reads as %#v, %v", s, named, again, err)
		}
	})
}
