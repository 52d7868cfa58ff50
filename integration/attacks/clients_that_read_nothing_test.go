package attacks

import (
	"strings"
	"sync"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// TestClientThatReadsNothing: whatever a client sends, what the proxy remembers of it until the
// replies are read is under 1 MB.
func TestClientThatReadsNothing(t *testing.T) {
	const clients, bound = 20, 1.0 // MB each
	const count, room = 16_500, 32 // of MB that the proxy lets garbage fill
	long, shorter := strings.Repeat("n", 1000), strings.Repeat("n", 128)
	times := func(n int, args ...string) string { return strings.Repeat(lab.Encode(args...), n) }
	stuck := times(16_000, strings.Repeat("u", 128), strings.Repeat("a", 128)) // errors of 300 bytes: no reply behind them arrives
	upstream := lab.StartRedis(t, "--maxmemory-clients", "2gb")
	upstream.Must(t, "SET", "large", strings.Repeat("x", 1<<20))
	for name, sent := range map[string]string{
		"MULTI":             times(count, "MULTI"),
		"MULTI and EXEC":    times(count, "MULTI") + times(count, "EXEC"),
		"AUTH, long names":  times(count, "AUTH", long, "x"),
		"HELLO, long names": times(count, "HELLO", "3", "AUTH", long, "x"),
		"AUTH":              times(count, "AUTH", shorter, "x"),
		"HELLO":             times(count, "HELLO", "3", "AUTH", shorter, "x"),
		"RESET, AUTH":       strings.Repeat(lab.Encode("RESET")+lab.Encode("AUTH", shorter, "x"), count/2),
		"inline":            strings.Repeat("AUTH "+shorter+" x\r\n", count),
		"HELLO, SETNAME":    times(count, "HELLO", "3", "SETNAME", long),
		"SUBSCRIBE":         times(count, "SUBSCRIBE", long),
		"CLIENT REPLY ON":   times(count, "CLIENT", "REPLY", "ON"),
		"CLIENT REPLY SKIP": times(count, "CLIENT", "REPLY", "SKIP"),
		"MONITOR":           times(count, "MONITOR"),
		"RESET":             times(count, "RESET"),
		"EXEC":              times(count, "EXEC"),
		"BLPOP":             times(count, "BLPOP", long, "0.001"),
		"mixed": strings.Repeat(lab.Encode("AUTH", shorter, "x")+lab.Encode("MULTI")+lab.Encode("HELLO", "3")+lab.Encode("SUBSCRIBE", long)+
			lab.Encode("RESET")+lab.Encode("CLIENT", "REPLY", "ON")+lab.Encode("EXEC")+" \r\n", count/7),
		"GET of large ones": times(30, "GET", "large"),
		"all, QUIT behind":  times(count, "AUTH", shorter, "x") + times(count, "SUBSCRIBE", "a") + times(1, "QUIT") + times(count, "PING"),
	} {
		t.Run(name, func(t *testing.T) {
			admin := lab.FreeAddr(t)
			p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off", "--admin-listen", admin)
			o := &lab.Operators{T: t, Addr: admin}
			desk := lab.Dial(t, p.Addr)
			desk.WantDo("+PONG\r\n", "PING")
			heapBefore, before := o.LiveHeap(), p.Memory(t, "VmRSS")
			var all sync.WaitGroup
			var hosts []*lab.Client
			for range clients {
				host := lab.Dial(t, p.Addr)
				host.Timeout = 15 * time.Second
				if err := host.SetReadBuffer(4096); err != nil {
					t.Fatal(err)
				}
				hosts = append(hosts, host)
				all.Go(func() { _ = host.Put(stuck + sent) }) // it may not all be taken
			}
			all.Wait()
			lab.Pass(t, 300*time.Millisecond)
			heap, rss := o.LiveHeap()-heapBefore, p.Memory(t, "VmRSS")-before
			t.Logf("%d clients: %.2f MB of live heap each, %.2f MB resident", clients, heap/clients, float64(rss)/clients)
			if heap/clients >= bound {
				t.Errorf("%.2f MB of heap for each, want under %v", heap/clients, bound)
			}
			if each := float64(rss-room) / clients; each >= bound {
				t.Errorf("%.2f MB resident for each, want under %v", each, bound)
			}
			desk.WantDo("+PONG\r\n", "PING")
			for _, host := range hosts {
				host.Reset()
			}
		})
	}
}
