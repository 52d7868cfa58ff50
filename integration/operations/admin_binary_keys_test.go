package operations

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// LOCKPROXY LOCKS returns every key byte for byte, and takes the prefix literally in patterns.
func TestLocksReturnsBinaryKeys(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 3, "--admin-commands", "on", "--key-prefix", `l[o]c*k?\:`)
	host := lab.Dial(t, c.Addr)
	want := map[string]bool{}
	for i := range 256 {
		key := fmt.Sprintf("%c\r\n*%s", i, string([]byte{byte(i), 0, 0xff}))
		host.Lock(key, "60s")
		want[key] = true
	}
	long := strings.Repeat("\x80", 1024)
	host.Lock(long, "60s")
	want[long] = true
	// A listing may leave out a lock that a master gets meanwhile. Masters get locks in order.
	lab.WaitFor(t, "the last lock on all masters", lab.Patience, func() bool {
		return lab.MapOf(host.Do("LOCKINFO", long))["held"] == "3"
	})
	for cursor, pages := "0", 0; ; pages++ {
		parts := lab.Elements(host.Do("LOCKPROXY", "LOCKS", cursor, "COUNT", "50", "MATCH", "*"))
		for _, lock := range lab.Elements(parts[1]) {
			key := lab.MapOf(lock)["key"]
			if !want[key] {
				t.Errorf("LOCKPROXY LOCKS: got unknown key %q", key)
			}
			delete(want, key)
		}
		if cursor = lab.Scalar(parts[0]); cursor == "0" || pages > 1000 {
			break
		}
	}
	if len(want) > 0 {
		t.Errorf("LOCKPROXY LOCKS: %d locks are missing", len(want))
	}
}
