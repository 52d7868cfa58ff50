package admin

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockproxy/plain"
	"lockproxy/stat"
)

// Limits that keep the cost for the masters small, however many operators ask.
const (
	pageKeys    = 200                    // for one SCAN
	pageScans   = 16                     // SCANs for one answer
	pageTime    = 400 * time.Millisecond // no other SCAN starts after that
	pageLocks   = 50                     // enough for one answer
	pageFresh   = time.Second            // how long an answer is served again
	pagesKept   = 16
	maxSearch   = 256 // bytes
	lockWait    = 3 * time.Second
	lockTimeout = 5 * time.Second
)

// lockList asks the masters for one request at a time, and keeps recent answers.
type lockList struct {
	turn chan struct{} // holds a value while the masters are asked

	mu   sync.Mutex
	kept map[string]keptPage
}

type keptPage struct {
	at   time.Time
	body []byte
}

func (l *lockList) init() { l.turn, l.kept = make(chan struct{}, 1), map[string]keptPage{} }

// forget drops the stored answers, which a release has made stale.
func (l *lockList) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.kept)
}

type lockReport struct {
	Hex     string       `json:"hex"` // the bytes of the key
	Key     string       `json:"key"`
	Mode    string       `json:"mode"`
	Holders int64        `json:"holders"`
	Owner   string       `json:"owner"`
	Fence   int64        `json:"fence,string"` // too large for a number in JavaScript
	Held    int64        `json:"held"`
	TTL     int64        `json:"ttl_ms"`         // negative: it never ends
	Granted int64        `json:"granted_ttl_ms"` // by LOCK or the last EXTEND; 0: not known
	Age     *int64       `json:"age_ms"`
	Waiting int64        `json:"waiting"`
	Slots   []slotReport `json:"slots,omitempty"`
	Adopted bool         `json:"adopted,omitempty"`
}

// slotReport is a stat.Slot with the names and the fence of a lockReport.
type slotReport struct {
	Slot  int64  `json:"slot"`
	Fence int64  `json:"fence,string"`
	Owner string `json:"owner"`
	TTL   int64  `json:"ttl_ms"`
}

type waitingReport struct {
	Hex     string         `json:"hex"` // the bytes of the key
	Key     string         `json:"key"`
	Clients int            `json:"clients"`
	Longest int64          `json:"longest_ms"`
	First   []waiterReport `json:"first"` // the first few, in order
}

type waiterReport struct {
	Owner string `json:"owner"`
	From  string `json:"from"`
	Mode  string `json:"mode"`
	Since int64  `json:"since_ms"`
}

type lockPage struct {
	Cursor string       `json:"cursor"` // of the next page; "0" after the last
	Locks  []lockReport `json:"locks"`
	// Quorum says that a majority of the masters answered. Otherwise Error says why not, and the
	// locks are those that Seen of Masters masters have.
	Quorum  bool   `json:"quorum"`
	Error   string `json:"error,omitempty"`
	Seen    int    `json:"seen"`
	Masters int    `json:"masters"`
}

func waitingReports(all []stat.Waiting) []waitingReport {
	list := make([]waitingReport, 0, len(all))
	for _, w := range all {
		r := waitingReport{hex.EncodeToString([]byte(w.Key)), plain.Escape(w.Key), w.Clients,
			w.Longest.Milliseconds(), []waiterReport{}}
		for _, f := range w.First {
			r.First = append(r.First, waiterReport{plain.Escape(f.Owner), plain.Addr(f.From), f.Mode,
				f.Since.Milliseconds()})
		}
		list = append(list, r)
	}
	return list
}

// listLocks serves GET /locks?search=text&cursor=n. A search with '*', '?' or '[' is a pattern;
// any other is part of the key.
func (s *Site) listLocks(w http.ResponseWriter, r *http.Request) {
	search, cursorText := r.FormValue("search"), r.FormValue("cursor")
	cursor, err := uint64(0), error(nil)
	if cursorText != "" {
		cursor, err = strconv.ParseUint(cursorText, 10, 64)
	}
	if err != nil || len(search) > maxSearch {
		http.Error(w, "no such cursor, or the search is too long", http.StatusBadRequest)
		return
	}
	name := strconv.FormatUint(cursor, 10) + " " + search
	body, ok := s.locks.keptAnswer(name)
	if !ok {
		ctx, cancel := context.WithTimeout(r.Context(), lockWait)
		defer cancel()
		select {
		case s.locks.turn <- struct{}{}:
			defer func() { <-s.locks.turn }()
		case <-ctx.Done():
			w.Header().Set("Retry-After", "2")
			http.Error(w, "others are asking for locks just now", http.StatusServiceUnavailable)
			return
		}
		if body, ok = s.locks.keptAnswer(name); !ok { // another request may have asked meanwhile
			if body, err = s.askLocks(r.Context(), cursor, pattern(search)); err != nil {
				http.Error(w, s.o.Explain(err), http.StatusBadGateway)
				return
			}
			s.locks.keep(name, body)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// askLocks asks the masters for pages until there are enough locks to show.
func (s *Site) askLocks(ctx context.Context, cursor uint64, match string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	page := lockPage{Locks: []lockReport{}, Quorum: true}
	for start, scans := time.Now(), 0; ; scans++ {
		found, err := s.o.Locks(ctx, cursor, match, pageKeys)
		if err != nil {
			return nil, err
		}
		page.add(&found, s.o.Meter.fights.granted)
		if found.Fault != nil {
			page.Error = s.o.Explain(found.Fault)
		}
		if cursor = found.Next; cursor == 0 || len(page.Locks) >= pageLocks || scans+1 >= pageScans ||
			time.Since(start) > pageTime {
			break
		}
	}
	page.Cursor = strconv.FormatUint(cursor, 10)
	return json.Marshal(&page)
}

// add adds what one scan has found. granted returns the ttl that a lock was granted with.
func (p *lockPage) add(found *stat.LockPage, granted func(*stat.Lock) time.Duration) {
	for i := range found.Locks {
		l := lockReportOf(&found.Locks[i])
		l.Granted = granted(&found.Locks[i]).Milliseconds()
		p.Locks = append(p.Locks, l)
	}
	p.Seen, p.Masters = found.Seen, found.Masters
	p.Quorum = p.Quorum && found.Fault == nil
}

func lockReportOf(l *stat.Lock) lockReport {
	r := lockReport{Hex: hex.EncodeToString([]byte(l.Key)), Key: plain.Escape(l.Key), Mode: l.Mode, Adopted: l.Adopted,
		Holders: l.Holders, Owner: plain.Escape(l.Owner), Fence: l.Fence, Held: l.Held, TTL: l.TTL, Waiting: l.Waiting}
	if l.Age > 0 {
		age := l.Age.Milliseconds()
		r.Age = &age
	}
	for _, slot := range l.Slots {
		slot.Owner = plain.Escape(slot.Owner)
		r.Slots = append(r.Slots, slotReport(slot))
	}
	return r
}

// pattern returns the pattern for the masters.
func pattern(search string) string {
	switch {
	case search == "":
		return ""
	case strings.ContainsAny(search, "*?["):
		return search
	}
	return "*" + strings.ReplaceAll(search, `\`, `\\`) + "*"
}

func (l *lockList) keptAnswer(name string) (body []byte, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.kept[name]
	return k.body, ok && time.Since(k.at) < pageFresh
}

func (l *lockList) keep(name string, body []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) >= pagesKept {
		clear(l.kept)
	}
	l.kept[name] = keptPage{time.Now(), body}
}
