package lab

import (
	"bytes"
	"net"
	"testing"
	"time"
)

// wanted is a command that a relay waits for.
type wanted struct {
	text  string
	nth   int           // the first is 1
	cut   bool          // cut the connection there, else hold its commands
	there chan struct{} // closed when the command has come
}

// Hold stops the connection that carries the nth command with text in it. That command and all
// after it stay in the relay until Thaw; the replies to earlier commands pass. Hold counts
// commands of all connections of the relay from now on, and closes the channel once it holds the
// command.
func (r *Relay) Hold(text string, nth int) <-chan struct{} {
	return r.await(&wanted{text: text, nth: nth})
}

// CutAt cuts the connection that carries the nth command with text in it before that command, like
// CutAll. It closes the channel once it has cut the connection.
func (r *Relay) CutAt(text string, nth int) <-chan struct{} {
	return r.await(&wanted{text: text, nth: nth, cut: true})
}

func (r *Relay) await(w *wanted) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.there = make(chan struct{})
	r.wanted = w
	return w.there
}

// matchLocked returns the wanted command if raw is that command, else nil.
func (r *Relay) matchLocked(raw []byte) *wanted {
	w := r.wanted
	if w == nil || !bytes.Contains(raw, []byte(w.text)) {
		return nil
	}
	if w.nth--; w.nth > 0 {
		return nil
	}
	r.wanted = nil
	return w
}

// stopAt holds or cuts the connection before the wanted command.
func (r *Relay) stopAt(l *link, w *wanted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.up.set(false); w.cut {
		r.cutLocked(l)
	}
	close(w.there)
}

// WantHeld waits until a relay holds the command of Hold, or has cut before that of CutAt.
func WantHeld(t testing.TB, held <-chan struct{}) {
	t.Helper()
	select {
	case <-held:
	case <-time.After(Patience):
		t.Fatalf("command to hold: got none through the relay within %v, want one", Patience)
	}
}

// Freeze keeps all bytes of present and new connections inside the relay.
func (r *Relay) Freeze() { r.setAll(false, true) }

// FreezeAnswers keeps replies of the master on present connections inside the relay; commands
// still pass.
func (r *Relay) FreezeAnswers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.down.set(false)
	}
}

// FreezeCommands keeps commands on present connections inside the relay; replies still pass.
func (r *Relay) FreezeCommands() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.up.set(false)
	}
}

// Thaw lets all bytes pass, also late bytes of connections that the proxy has closed.
func (r *Relay) Thaw() { r.setAll(true, false) }

// FreezeNew keeps all bytes of new connections inside the relay while the present ones stay as
// they are.
func (r *Relay) FreezeNew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = true
}

// ThawNew lets new connections through while the present ones stay as they are.
func (r *Relay) ThawNew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = false
}

func (r *Relay) setAll(open, frozen bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frozen = frozen
	for l := range r.links {
		l.up.set(open)
		l.down.set(open)
	}
}

// Slow delays every chunk, each way, from now on.
func (r *Relay) Slow(delay time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = delay
}

// Narrow limits the bytes a second of each connection towards the server; 0 removes the limit.
// Further bytes wait in the relay, in order.
func (r *Relay) Narrow(bytesPerSecond int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.width = bytesPerSecond
}

// Spoil makes the relay change bytes on their way to the client.
func (r *Relay) Spoil(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoiled = yes
}

// Refuse makes new connections end with a reset, until it is called with false.
func (r *Relay) Refuse(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = yes
}

// CutAll resets all connections on both sides, and drops the bytes inside the relay.
func (r *Relay) CutAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		r.cutLocked(l)
	}
}

func (r *Relay) cutLocked(l *link) {
	l.cutOnce.Do(func() { close(l.cut) })
	for _, c := range []*net.TCPConn{l.client, l.server} {
		_ = c.SetLinger(0)
		c.Close()
	}
	delete(r.links, l)
}

// Isolate refuses new connections and cuts the present ones; Rejoin ends that.
func (r *Relay) Isolate() {
	r.Refuse(true)
	r.CutAll()
}

// Rejoin ends every fault of the relay.
func (r *Relay) Rejoin() {
	r.mu.Lock()
	r.wanted = nil
	r.mu.Unlock()
	r.Thaw()
	r.Slow(0)
	r.Narrow(0)
	r.Spoil(false)
	r.Refuse(false)
}

// Switch leads new connections to another server and cuts the present ones, like a virtual address
// that moves.
func (r *Relay) Switch(target string) {
	r.mu.Lock()
	r.target = target
	r.mu.Unlock()
	r.CutAll()
}

// goal returns the server of new connections.
func (r *Relay) goal() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.target
}

// Connections returns how many connections the relay has carried since the last cut.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}
