package stat

import (
	"net"
	"time"
)

// Why is the knowledge of one proxy about a key: who holds it and who waits. GET /why at
// admin-listen, LOCKPROXY WHY and lockproxy why --json answer it. Texts are printable.
// Lists are never null in JSON.
type Why struct {
	Key string `json:"key"`
	Hex string `json:"hex"` // the bytes of the key
	// "exclusive", "shared", "limit", "kept", or "foreign" for a key that is no lock. Empty: too
	// few masters that answered have the same; the key is free unless Blocked or Error says
	// otherwise.
	Mode string `json:"mode"`
	// Of a foreign key: "hash", "list" ... as Redis names it; "hash on 2, list on 1" if masters
	// differ.
	Type string `json:"type,omitempty"`

	Quorum bool `json:"quorum"` // a majority of the masters answered
	// Error is LOCKINFO's: the masters that did not answer may have something else, and would
	// decide. "seen on 2 of 5" names Held and Masters. Empty: the rest is certain.
	Error string `json:"error,omitempty"`
	// Blocked: with a quorum, no majority is known to hold a lock, but too few masters that
	// answered are free for LOCK to have it.
	Blocked bool `json:"blocked"`
	Seen    int  `json:"seen"`    // masters that answered
	Masters int  `json:"masters"` // all masters
	Held    int  `json:"held"`    // masters that have the holder, or the foreign key

	// The following are of the latest holder.
	Holders int         `json:"holders"`         // how many there are; 0 for a foreign key
	Fence   uint64      `json:"fence"`           // under 2^53; 0: another Redlock library's, or none
	Owner   string      `json:"owner"`           // the label
	Client  string      `json:"client"`          // the address of the holder; empty: not known
	Since   int64       `json:"since"`           // Unix time of the grant in ms; 0: not known to this proxy
	TTL     int64       `json:"ttl_ms"`          // until the last holder's lock ends; -1: it has no end
	Granted int64       `json:"granted_ttl_ms"`  // the ttl of its LOCK or last EXTEND; 0: not known
	Slots   []WhySlot   `json:"slots,omitempty"` // of "limit"
	Voters  []WhyMaster `json:"voters"`          // one for each master
	Proxy   string      `json:"proxy"`           // that granted the lock; empty: not known to this proxy
	Asked   string      `json:"asked"`           // the proxy that this is from

	Waiting int         `json:"waiting"` // how many clients of this proxy wait
	Waiters []WhyWaiter `json:"waiters"` // the first 100 of them, in order
	Last    []WhyHolder `json:"last"`    // earlier holders that this proxy remembers, the latest first
	Advice  []string    `json:"advice"`  // sentences: what to expect and to do
}

// Others counts the masters that have another key or holder under this name.
func (w *Why) Others() (n int) {
	for _, v := range w.Voters {
		if v.Other != "" {
			n++
		}
	}
	return n
}

// Free counts the masters that answered and have no key of this name.
func (w *Why) Free() (n int) {
	for _, v := range w.Voters {
		if v.Answered && !v.Holds && v.Other == "" {
			n++
		}
	}
	return n
}

// Needed is the majority of the masters.
func (w *Why) Needed() int { return w.Masters/2 + 1 }

// WhySlot is a Slot whose TTL has the unit in its name.
type WhySlot struct {
	Slot  int64  `json:"slot"`
	Fence int64  `json:"fence"`
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl_ms"`
}

// WhyMaster is one master's answer.
type WhyMaster struct {
	Master   string `json:"master"`          // its address, or "master 3"
	Holds    bool   `json:"holds"`           // it has the holder, or the foreign key
	Other    string `json:"other,omitempty"` // the mode of something else under that name
	Type     string `json:"type,omitempty"`  // of a foreign key
	Answered bool   `json:"answered"`
	Error    string `json:"error,omitempty"` // why it did not answer, or its answer does not count
	TTL      int64  `json:"ttl_ms"`          // of its key; -1: without an end; 0: no key
}

// WhyWaiter is a client that waits for the key.
type WhyWaiter struct {
	Place   int    `json:"place"` // in the queue of its proxy, from 1
	Label   string `json:"label"`
	Address string `json:"address"`
	Age     int64  `json:"age_ms"`
	Mode    string `json:"mode"`            // the requested kind: "exclusive", "shared" or "limit"
	Proxy   string `json:"proxy,omitempty"` // if several proxies were asked: the one at which it waits
}

// WhyHolder is an earlier holder.
type WhyHolder struct {
	Fence  uint64 `json:"fence"`
	Owner  string `json:"owner"`
	Client string `json:"client"`
	Since  int64  `json:"since"`           // Unix time in ms
	Until  int64  `json:"until"`           // its UNLOCK; 0: not known, or without
	Proxy  string `json:"proxy,omitempty"` // if several proxies were asked: the one that granted it
}

// Holder is a client that was granted a lock through this proxy.
type Holder struct {
	Owner  string
	Client net.Addr
	Fence  uint64
	Since  time.Time
	Until  time.Time     // of its UNLOCK; zero: not known, or it still holds the lock
	TTL    time.Duration // of LOCK or the last EXTEND
}

// LockPage is a page of locks, for operators.
type LockPage struct {
	Next  uint64 // the cursor of the next page; 0 after the last
	Locks []Lock
	// Fault is nil if a majority of the masters answered. Otherwise it says why not, and only the
	// locks of the Seen masters that answered are listed.
	Fault         error
	Seen, Masters int
}
