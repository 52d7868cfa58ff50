package relay

import (
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Clients that send nothing take no connection of the upstream, however few it has. One that sends
// hears of a full upstream then, in Redis' words, and is disconnected like a direct client.
func TestSilentClientsUseNoUpstreamConnection(t *testing.T) {
	t.Parallel()
	const most = 12
	upstream := lab.StartRedis(t, "--maxclients", "12")
	p := lab.StartProxy(t, "--upstream", upstream.Addr, "--masters", lab.StartRedis(t).Addr, "--restart-guard", "off")
	var silent []*lab.Client
	for range 2 * most {
		silent = append(silent, lab.Dial(t, p.Addr))
	}
	lab.Dial(t, p.Addr).WantDo("+OK\r\n", "SET", "a", "1") // accepted after the silent ones
	if n := lab.Number(t, upstream.Info(t, "clients", "connected_clients")); n >= most {
		t.Errorf("connections to the upstream: got %d, want fewer than %d", n, most)
	}

	var direct []*lab.Client
	said := ""
	lab.WaitFor(t, "a full upstream", lab.Patience, func() bool {
		c := lab.Dial(t, upstream.Addr)
		direct = append(direct, c)
		text, closed, _ := c.Rest(50 * time.Millisecond)
		said = text
		return closed
	})
	silent[0].Send("PING\r\n")
	if got, closed, err := silent[0].Rest(lab.Patience); got != said || !closed {
		t.Errorf("PING at a full upstream: got %q, closed %v (%v), want %q and the end, as directly", got, closed, err, said)
	}
	for _, c := range direct {
		c.Close()
	}
	lab.WaitFor(t, "room at the upstream", lab.Patience, func() bool {
		c := silent[1]
		silent = silent[1:]
		reply, _ := c.Ask("PING")
		return reply == "+PONG\r\n"
	})
}
