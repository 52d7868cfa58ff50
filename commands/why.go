package commands

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// maxWhyWaiters is how many waiters Why lists.
const maxWhyWaiters = 100

// waiters is LOCKPROXY WAITERS key: an array of maps, in the order of the queue.
//
//	< *1\r\n*8\r\n$5\r\nlabel\r\n$3\r\nme1\r\n$7\r\naddress\r\n$15\r\n127.0.0.1:52114\r\n
//	  $6\r\nage_ms\r\n:1250\r\n$4\r\nmode\r\n$9\r\nexclusive\r\n
func (o *operators) waiters(c *call) {
	all, _ := o.queues.First(c.key, o.now().MaxWaiters)
	c.writeArray(len(all))
	for _, w := range all {
		c.writeMap(4)
		c.writeText("label", w.Owner)
		c.writeText("address", plain.Addr(w.From))
		c.writeNumber("age_ms", w.Since.Milliseconds())
		c.writeText("mode", w.Mode)
	}
}

// why is LOCKPROXY WHY key: the JSON of a stat.Why.
func (o *operators) why(c *call) {
	why, err := o.Why(c.session.Context(), c.key)
	if err != nil {
		o.outcomes.writeFailure(c, err)
		return
	}
	text, _ := json.Marshal(&why)
	c.writeBulk(string(text))
}

// Why returns all that this proxy and the masters that answer know about key: holder and waiters.
// If masters hang it takes a second, and twice master-timeout more for a foreign key. Its only
// error is context.Cause(ctx).
func (o *operators) Why(ctx context.Context, key string) (stat.Why, error) {
	v, err := o.opts.Inspector.View(ctx, key)
	if err != nil {
		return stat.Why{}, err
	}
	w := stat.Why{Key: plain.Escape(key), Hex: hex.EncodeToString([]byte(key)), Asked: o.opts.Name,
		Quorum: v.Answered > len(v.Masters)/2, Seen: v.Answered, Masters: len(v.Masters),
		Voters: []stat.WhyMaster{}, Waiters: []stat.WhyWaiter{}, Last: []stat.WhyHolder{}}
	if v.Fault != nil {
		w.Error = failureText(v.Fault, o.now().ShowMasters)
	}
	if info := &v.Info; info.Held > 0 {
		w.Mode, w.Type, w.Held, w.Holders = info.Mode.String(), plain.Escape(info.Type), info.Held, info.Holders
		w.Fence, w.Owner, w.TTL = info.Fence, plain.Escape(info.Owner), wholeMillis(info.TTL)
		for _, s := range info.Slots {
			s.Owner = plain.Escape(s.Owner)
			w.Slots = append(w.Slots, stat.WhySlot(s))
		}
	}
	o.whyVoters(&w, &v)
	w.Blocked = w.Quorum && (w.Held == 0 || w.Error != "") && w.Free() < w.Needed()
	o.whyRecord(&w, &v.Info)
	o.whyWaiters(&w, key)
	w.Advice = o.advice(&w, &v.Info)
	return w, nil
}

// wholeMillis returns d in milliseconds, rounded up, and -1 for a negative d.
func wholeMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return (d + time.Millisecond - 1).Milliseconds()
}

// whyVoters fills in the answers of the masters.
func (o *operators) whyVoters(w *stat.Why, v *quorum.View) {
	all := o.opts.Inspector.Masters()
	for i, m := range v.Masters {
		one := stat.WhyMaster{Master: plain.Escape(o.shownName(all, i)), Holds: m.Holds, Answered: m.Fault == nil,
			Type: plain.Escape(m.Type), TTL: wholeMillis(m.Left)}
		if m.Fault != nil {
			one.Error = plain.Line(m.Fault.Text(o.now().ShowMasters))
		}
		if m.Has && !m.Holds {
			one.Other = m.Mode.String()
		}
		w.Voters = append(w.Voters, one)
	}
}

// whyRecord adds the record of this proxy about the holder and earlier ones.
func (o *operators) whyRecord(w *stat.Why, info *quorum.Info) {
	holds := info.Held > 0 && info.Mode != quorum.Kept && info.Mode != quorum.Foreign
	var last []stat.Holder
	if o.opts.Holders != nil {
		last = o.opts.Holders(info.Key)
	}
	for _, h := range last {
		if holds && w.Since == 0 && h.Fence == info.Fence && labelOf(&h) == info.Owner && h.Until.IsZero() {
			w.Since, w.Granted, w.Client = h.Since.UnixMilli(), h.TTL.Milliseconds(), plain.Addr(h.Client)
			continue
		}
		one := stat.WhyHolder{Fence: h.Fence, Owner: plain.Escape(h.Owner), Client: plain.Addr(h.Client),
			Since: h.Since.UnixMilli()}
		if !h.Until.IsZero() {
			one.Until = h.Until.UnixMilli()
		}
		w.Last = append(w.Last, one)
	}
	// without a fence it could be the age of an earlier lock of the key
	if holds && w.Since == 0 && info.Fence != 0 && info.Mode == quorum.Exclusive {
		if age := o.grants.age(info.Key, info.Fence); age > 0 {
			w.Since = time.Now().Add(-age).UnixMilli()
		}
	}
	if w.Since != 0 {
		w.Proxy = o.opts.Name
	}
}

// labelOf returns the label that the masters have for a lock that was recorded: the client's
// address if it gave none, see request.
func labelOf(h *stat.Holder) string {
	switch {
	case h.Owner != "" || h.Client == nil:
		return h.Owner
	case h.Client.Network() == "unix":
		return "unix"
	}
	return h.Client.String()
}

// whyWaiters fills in the clients that wait.
func (o *operators) whyWaiters(w *stat.Why, key string) {
	first, waiting := o.queues.First(key, maxWhyWaiters)
	w.Waiting = waiting
	for i, f := range first {
		w.Waiters = append(w.Waiters, stat.WhyWaiter{Place: i + 1, Label: plain.Escape(f.Owner),
			Address: plain.Addr(f.From), Age: f.Since.Milliseconds(), Mode: f.Mode})
	}
}
