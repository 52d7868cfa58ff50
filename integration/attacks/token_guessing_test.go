package attacks

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestOnlyTheTokenUnlocksOrExtends: neither the fence alone, nor a part of the token, nor a token
// that differs in one digit, nor random guesses free or extend a lock.
func TestOnlyTheTokenUnlocksOrExtends(t *testing.T) {
	t.Parallel()
	seed := lab.SeedOf(t, uint64(time.Now().UnixNano()))
	c := lab.StartCluster(t, 3, "--master-timeout", "2s", "--max-ttl", "20m")
	desk := lab.Dial(t, c.Addr)
	token := desk.Lock("job", "20m")
	fence, secret := token[:16], token[17:]
	const wrong = "-ERR invalid token: it must be 16 decimal digits, a colon and 40 lower-case hex digits\r\n"
	const empty = "-ERR invalid token: it is empty: did LOCK answer null?\r\n"
	for guess, want := range map[string]string{
		fence: wrong, fence + ":": wrong, secret: wrong, ":" + secret: wrong,
		token + "0": wrong, token[:56]: wrong, strings.ToUpper(token): wrong, "*": wrong, "": empty,
		fence + ":" + secret[:39] + "*": wrong, fence + ":" + secret[:39] + "\x00": wrong,
		fence + ":" + strings.Repeat("0", 40): ":0\r\n",
		fence + ":" + secret[1:] + secret[:1]: ":0\r\n",
	} {
		if guess == strings.ToLower(guess) || want != wrong {
			desk.WantDo(want, "UNLOCK", "job", guess)
			desk.WantDo(want, "EXTEND", "job", guess, "60s")
		}
	}
	total, clients := lab.Long(4000, 1_000_000), 4
	results := make(chan error, clients)
	for i := range clients {
		host := lab.Dial(t, c.Addr)
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		go func() { results <- guess(host.Conn, r, token, total/clients) }()
	}
	for range clients {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if info := lab.MapOf(desk.Do("LOCKINFO", "job")); info["held"] != "3" {
		t.Errorf("LOCKINFO after %d guesses: got %v, want held by 3", total, info)
	}
	desk.WantDo(":1\r\n", "EXTEND", "job", "9999999999999999:"+secret, "60s") // only the hex digits count
	desk.Unlock("job", token)
}

// guess tries n tokens in pipelines: random tokens, and the right token with one digit changed.
func guess(c *lab.Conn, r *rand.Rand, token string, n int) error {
	const batch = 250
	for ; n > 0; n -= batch {
		var text strings.Builder
		for i := range batch {
			try := []byte(token)
			if at := 17 + r.IntN(40); i%2 == 0 {
				try[at] = "0123456789abcdef"[(strings.IndexByte("0123456789abcdef", try[at])+1+r.IntN(15))%16]
			} else {
				copy(try[17:], fmt.Sprintf("%016x%016x%08x", r.Uint64(), r.Uint64(), r.Uint32()))
			}
			if i%4 < 2 {
				text.WriteString(lab.Encode("UNLOCK", "job", string(try)))
			} else {
				text.WriteString(lab.Encode("EXTEND", "job", string(try), "60s"))
			}
		}
		if err := c.Put(text.String()); err != nil {
			return err
		}
		for range batch {
			if reply, err := c.Next(); reply != ":0\r\n" || err != nil {
				return fmt.Errorf("a guess: got %.100q, %w, want 0", reply, err)
			}
		}
	}
	return nil
}
