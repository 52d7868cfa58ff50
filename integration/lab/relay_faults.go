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
	nth   int           // it is the nth to come, from 1
	cut   bool          // the connection is cut there; else its way to the master is shut
	there chan struct{} // closed when it has come
}

// Hold stops the connection that carries the nth command with text in it: that command and all
// behind it stay in the relay until Thaw, the answers to earlier ones still come. The channel is
// closed when that has happened. Commands are counted over all connections of the relay, from now
// on.
func (r *Relay) Hold(text string, nth int) <-chan struct{} {
	return r.await(&wanted{text: text, nth: nth})
}

// CutAt cuts the connection that carries the nth command with text in it, as CutAll does, before
// that command. The channel is closed when that has happened.
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

// matchLocked returns what was waited for if raw is that command.
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

// stopAt does what is to be done where the wanted command begins.
func (r *Relay) stopAt(l *link, w *wanted) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.up.set(false); w.cut {
		r.cutLocked(l)
	}
	close(w.there)
}

// WantHeld waits until a relay holds what it was told to.
func WantHeld(t testing.TB, held <-chan struct{}) {
	t.Helper()
	select {
	case <-held:
	case <-time.After(Patience):
		t.Fatalf("nothing to hold came through the relay within %v", Patience)
	}
}

// Freeze keeps all bytes of present and new connections inside the relay.
func (r *Relay) Freeze() { r.setAll(false, true) }

// FreezeAnswers keeps what masters send on present connections inside the relay; commands still
// reach them.
func (r *Relay) FreezeAnswers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.down.set(false)
	}
}

// FreezeCommands keeps what is sent to the master on present connections inside the relay; answers
// still come back.
func (r *Relay) FreezeCommands() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for l := range r.links {
		l.up.set(false)
	}
}

// Thaw lets everything go on, late bytes of connections that the proxy has given up included.
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

// Narrow limits what each connection carries towards the server, in bytes a second; 0 ends that.
// More waits in the relay, in order.
func (r *Relay) Narrow(bytesPerSecond int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.width = bytesPerSecond
}

// Spoil makes the relay change bytes of what it carries to the client.
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

// CutAll resets all connections on both sides; bytes inside the relay are lost.
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

// Rejoin ends every fault: new connections pass, present ones go on at full speed.
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

// Switch leads new connections to another server from now on, and cuts the present ones: what a
// virtual address does.
func (r *Relay) Switch(target string) {
	r.mu.Lock()
	r.target = target
	r.mu.Unlock()
	r.CutAll()
}

// goal returns the server that new connections are led to.
func (r *Relay) goal() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.target
}

// Connections tells how many connections were made through the relay since the last cut.
func (r *Relay) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}
