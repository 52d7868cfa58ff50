package sim

import "time"

// scriptRights are the rights that scripts need.
var scriptRights = []string{"set", "get", "getrange", "setrange", "type", "pttl", "pexpire", "pexpireat", "del",
	"hset", "hmget", "zadd", "zrem", "zscore", "zcount", "zrevrange", "zrangebyscore", "publish", "pubsub"}

// takeRights takes some rights away from the user of one master or two, for a while.
func (f *faulter) takeRights() {
	masters := f.shuffled()[:1+f.random.IntN(2)]
	var rights []string
	for range 1 + f.random.IntN(2) {
		rights = append(rights, scriptRights[f.random.IntN(len(scriptRights))])
	}
	f.during(func() {
		for _, m := range masters {
			f.w.trace.note(m.index, "rights taken away: %v", rights)
			f.w.net.giveRights(m, rights, -1)
		}
	}, func() {
		for _, m := range masters {
			f.w.trace.note(m.index, "rights given back: %v", rights)
			f.w.net.giveRights(m, rights, 1)
		}
	})
}

// giveRights gives rights back that as many faults have taken, or with -1 takes them.
func (n *network) giveRights(m *simMaster, rights []string, by int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	m.disturbed = time.Now()
	m.Set(func() {
		m.Lacks = make(map[string]bool)
		for _, right := range rights {
			m.rights[right] += by
		}
		for right, count := range m.rights {
			if count < 0 {
				m.Lacks[right] = true
			}
		}
	})
}
