package attacks

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"lockproxy/integration/lab"
)

// TestClientThatReadsNothingCostsUnderAMegabyte: the proxy remembers under 1 MB of a client that
// sends requests of any kind and reads no reply.
func TestClientThatReadsNothingCostsUnderAMegabyte(t *testing.T) {
	upstream := lab.StartRedis(t, "--maxmemory-clients", "2gb")
	upstream.Must(t, "SET", "large", strings.Repeat("x", 1<<20))
	for name, sent := range unreadRequests() {
		if !slices.Contains(costliest, name) && !lab.IsLong() { // TestClientThatReadsNothing in resp tries all
			continue
		}
		t.Run(name, func(t *testing.T) { wantSmallWhileUnread(t, upstream, unreadEchoes+sent) })
	}
}

// costliest are the cases that are tried unless INTEGRATION_LONG is set.
var costliest = []string{"AUTH, long names", "SUBSCRIBE", "BLPOP", "mixed", "GET of large values",
	"QUIT before the end"}

// unreadErrors are commands that Redis answers with errors of 300 bytes, also in a transaction. If
// the client does not read these 4.8 MB, the replies to all later commands stay in Redis.
var unreadErrors = times(16_000, strings.Repeat("u", 128), strings.Repeat("a", 128))

// unreadEchoes are as many bytes as unreadErrors, and so are the replies, but Redis has fewer
// commands to run. In a transaction the replies would be short.
var unreadEchoes = times(1200, "ECHO", strings.Repeat("e", 4000))

// times returns a command n times over.
func times(n int, args ...string) string { return strings.Repeat(lab.Encode(args...), n) }

// unreadRequests returns the requests of each case. The proxy must remember something else of each
// kind until the reply comes.
func unreadRequests() map[string]string {
	const count = 16_500
	fewer := lab.Long(6000, count) // their names are 6 MB together
	long, shorter := strings.Repeat("n", 1000), strings.Repeat("n", 128)
	return map[string]string{
		"MULTI":             times(count, "MULTI"),
		"MULTI and EXEC":    times(count, "MULTI") + times(count, "EXEC"),
		"AUTH, long names":  times(fewer, "AUTH", long, "x"),
		"HELLO, long names": times(count, "HELLO", "3", "AUTH", long, "x"),
		"AUTH":              times(count, "AUTH", shorter, "x"),
		"HELLO":             times(count, "HELLO", "3", "AUTH", shorter, "x"),
		"RESET, AUTH":       strings.Repeat(lab.Encode("RESET")+lab.Encode("AUTH", shorter, "x"), count/2),
		"inline":            strings.Repeat("AUTH "+shorter+" x\r\n", count),
		"HELLO, SETNAME":    times(count, "HELLO", "3", "SETNAME", long),
		"SUBSCRIBE":         times(fewer, "SUBSCRIBE", long),
		"CLIENT REPLY ON":   times(count, "CLIENT", "REPLY", "ON"),
		"CLIENT REPLY SKIP": times(count, "CLIENT", "REPLY", "SKIP"),
		"MONITOR":           times(count, "MONITOR"),
		"RESET":             times(count, "RESET"),
		"EXEC":              times(count, "EXEC"),
		"BLPOP":             times(fewer, "BLPOP", long, "0.001"),
		"mixed": strings.Repeat(lab.Encode("AUTH", shorter, "x")+lab.Encode("MULTI")+lab.Encode("HELLO", "3")+
			lab.Encode("SUBSCRIBE", long)+lab.Encode("RESET")+
			lab.Encode("CLIENT", "REPLY", "ON")+lab.Encode("EXEC")+" \r\n", count/7),
		"GET of large values": times(lab.Long(15, 30), "GET", "large"),
		"QUIT before the end": times(count, "AUTH", shorter, "x") + times(count, "SUBSCRIBE", "a") + times(1, "QUIT") +
			times(count, "PING"),
	}
}

// wantSmallWhileUnread lets many clients send the same bytes and read no reply. Once the proxy and
// the upstream are idle, it compares the proxy's memory with that before.
func wantSmallWhileUnread(t *testing.T, upstream *lab.Redis, sent string) {
	const clients, bound = 8, 1.0 // MB each
	const garbage = 32            // MB that the proxy lets garbage fill
	admin := lab.FreeAddr(t)
	p := lab.StartPlainProxy(t, "--upstream", upstream.Addr, "--restart-guard", "off", "--admin-listen", admin)
	o := &lab.Operators{T: t, Addr: admin}
	desk := lab.Dial(t, p.Addr)
	desk.WantDo("+PONG\r\n", "PING")
	heapBefore, residentBefore := o.LiveHeap(), p.Memory(t, "VmRSS")

	input := []byte(sent) // Put would copy it for each client
	var writers sync.WaitGroup
	var hosts []*lab.Client
	for range clients {
		host := lab.Dial(t, p.Addr)
		if err := host.SetReadBuffer(4096); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
		writers.Go(func() { _, _ = host.Write(input) }) // Reset ends it if the proxy never takes all
	}
	defer writers.Wait()
	defer func() {
		for _, host := range hosts {
			host.Reset()
		}
	}()
	lab.WaitIdle(t, 4*lab.Patience, p.Process, upstream.Process)

	heap := (o.LiveHeap() - heapBefore) / clients
	t.Logf("%d clients: %.2f MB of live heap each", clients, heap)
	if heap >= bound {
		t.Errorf("live heap of %.2f MB for each client, want under %v", heap, bound)
	}
	// The runtime returns memory to the system some time after a collection has freed it.
	var resident float64
	if !lab.Poll(lab.Patience, func() bool {
		resident = float64(p.Memory(t, "VmRSS")-residentBefore-garbage) / clients
		return resident < bound
	}) {
		t.Errorf("resident memory of %.2f MB for each client, want under %v", resident, bound)
	}
	desk.WantDo("+PONG\r\n", "PING")
}
