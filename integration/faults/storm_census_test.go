package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockproxy/integration/history"
	"lockproxy/integration/lab"
)

// census lists the lock keys on all masters with their values. A shared or limited key has a value
// for each holder that has not expired.
func (s *faultStorm) census(t testing.TB) (list []history.Found) {
	t.Helper()
	for i, m := range s.Masters {
		for _, key := range lab.LockKeys(t, m) {
			if !slices.Contains(s.keys, key) { // of an earlier round
				continue
			}
			for _, f := range valuesOf(t, m, "lock:"+key) {
				f.Master, f.Key = fmt.Sprint("master ", i), key
				list = append(list, f)
			}
		}
	}
	return list
}

// valuesOf returns the values that a master has at a key.
func valuesOf(t testing.TB, m *lab.Redis, key string) (list []history.Found) {
	t.Helper()
	left := time.Duration(lab.Number(t, lab.Scalar(m.Do(t, "PTTL", key)))) * time.Millisecond
	switch kind := lab.Scalar(m.Do(t, "TYPE", key)); kind {
	case "none":
	case "string":
		if value := m.Do(t, "GET", key); value != lab.Null2 {
			list = append(list, history.Found{Value: lab.Scalar(value), Left: left})
		}
	case "zset": // the score of '=' and a holder's secret is its end and slot; the score of its entry is negative
		ends := make(map[string]string)
		for pair := range slices.Chunk(lab.Fields(m.Do(t, "ZRANGE", key, "1000", "+inf", "BYSCORE", "WITHSCORES")), 2) {
			if secret, holder := strings.CutPrefix(pair[0], "="); holder {
				ends[secret] = pair[1]
			}
		}
		const secret, fence = 40, len("S000") // length of the secret in an entry, and of the part before the fence
		for _, entry := range lab.Fields(m.Do(t, "ZRANGE", key, "-inf", "(0", "BYSCORE")) {
			if len(entry) < secret+fence {
				continue // a slot's name
			}
			if end, holds := ends[entry[:secret]]; holds {
				value := entry[:secret] + entry[secret+fence:]
				list = append(list, history.Found{Value: value, Left: untilThen(t, m, end)})
			}
		}
	default:
		t.Errorf("type of %s: got %s, want string or zset", key, kind)
	}
	if left == -time.Millisecond { // the key never expires
		list = append(list, history.Found{Value: "without expiry", Left: left})
	}
	return slices.DeleteFunc(list, func(f history.Found) bool { return f.Left == 0 })
}

// untilThen returns the time, by a master's clock, until the end of a holder, or 0 after it. The
// score is the end in Unix milliseconds and, in its last three digits, the slot.
func untilThen(t testing.TB, m *lab.Redis, end string) time.Duration {
	t.Helper()
	now := lab.Fields(m.Do(t, "TIME"))
	ms := lab.Number(t, end)/1000 - lab.Number(t, now[0])*1000 - lab.Number(t, now[1])/1000
	return time.Duration(max(0, ms)) * time.Millisecond
}
