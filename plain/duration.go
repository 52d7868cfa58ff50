package plain

import (
	"strconv"
	"time"
)

// Duration returns d as people write it, in a form that settings and commands read: 10ms, 60s,
// 15m, 1h. It drops parts of a millisecond.
func Duration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		from time.Duration
		name string
	}{{time.Hour, time.Hour, "h"}, {time.Minute, 10 * time.Minute, "m"}, {time.Second, time.Second, "s"}} {
		if d >= u.from && d%u.unit == 0 {
			return strconv.FormatInt(int64(d/u.unit), 10) + u.name
		}
	}
	if d == 0 {
		return "0s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
