package plain

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"max-ttl", "min-ttl", "masters", "run", "listen", "MASTERS"}
	for wrote, want := range map[string]string{
		"max-tll": "max-ttl", "maxttl": "max-ttl", "max_ttl": "max-ttl", "min-ttls": "min-ttl", "mix-ttl": "max-ttl",
		"master": "masters", "mastesr": "masters", "Listen": "listen", "lisetn": "listen", "rnu": "run", "runn": "run",
		"": "", "x": "", "re": "", "backup.sh": "", "key-prefix": "", "redis://:secret@h:1": "",
	} {
		t.Run(wrote, func(t *testing.T) {
			if got := Nearest(wrote, words); got != want {
				t.Errorf("%q: %q, want %q", wrote, got, want)
			}
		})
	}
}
