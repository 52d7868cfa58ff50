package resp

import "testing"

// TestQuitSearch: a QUIT is found once, in any pieces of its bytes, also after the pump has
// processed the bytes before it.
func TestQuitSearch(t *testing.T) {
	const ping, quit = "*1\r\n$4\r\nPING\r\n", "*1\r\n$4\r\nQUIT\r\n"
	type piece struct {
		bytes string
		end   uint64
		want  bool
	}
	for name, pieces := range map[string][]piece{
		"once":               {{ping + quit, 100, true}, {ping + quit, 100, false}, {quit, 100, false}},
		"more behind":        {{ping, 14, false}, {ping + quit, 28, true}},
		"the new bytes only": {{ping + quit[:5], 19, false}, {quit[5:], 28, true}},
		"cut, with the old":  {{ping + quit[:5], 19, false}, {quit[:12], 26, false}, {quit, 28, true}},
		"another command":    {{"*2\r\n$4\r\nECHO\r\n$70\r\n", 20, false}, {quit, 106, true}},
		"read ahead of it": {{ping, 14, false}, {ping + ping + quit, 14 + 42, true}, {ping[:3], 17, false},
			{"", 14, false}},
		"in a body": {{"*2\r\n$4\r\nECHO\r\n$14\r\n", 20, false}, {quit + "\r\n", 36, false}},
	} {
		t.Run(name, func(t *testing.T) {
			var q quitSearch
			for i, p := range pieces {
				if got := q.find([]byte(p.bytes), p.end); got != p.want {
					t.Errorf("piece %d: %v, want %v", i, got, p.want)
				}
			}
		})
	}
}
