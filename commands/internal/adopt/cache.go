package adopt

import (
	"container/list"
	"sync"
)

// mostScripts is how many scripts a table remembers.
const mostScripts = 1000

// cache remembers scripts by their SHA1. The least recently used goes first.
type cache struct {
	mu      sync.Mutex
	most    int
	scripts map[string]*list.Element // of recent
	recent  *list.List               // of *cached, the last used first
}

type cached struct {
	sum    string
	script script
}

func newCache(most int) *cache {
	return &cache{most: most, scripts: make(map[string]*list.Element), recent: list.New()}
}

func (c *cache) get(sum string) (s script, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.scripts[sum]
	if e == nil {
		return script{}, false
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached).script, true
}

func (c *cache) put(sum string, s script) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.scripts[sum]; e != nil {
		c.recent.MoveToFront(e)
		return
	}
	c.scripts[sum] = c.recent.PushFront(&cached{sum, s})
	if len(c.scripts) > c.most {
		oldest := c.recent.Remove(c.recent.Back()).(*cached)
		delete(c.scripts, oldest.sum)
	}
}
