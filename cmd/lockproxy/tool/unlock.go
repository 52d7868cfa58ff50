package tool

import (
	"context"
	"strings"
	"time"

	"lockproxy/plain"
)

// unlockTimeout bounds an UNLOCK over one proxy. Closing the connection releases the lock as well.
const unlockTimeout = 2 * time.Second

// unlock releases the lock, or keeps it closed until end if end is in the future. It waits for the
// answer, and reports whether the lock was still held as far as the answers say.
//
// If a proxy gives no answer, it tries the others: once each, or until the lock's end if it must
// be kept closed.
func (k *keeper) unlock(end time.Time) (held bool) {
	k.stopMoving()
	sent := false // an UNLOCK that may have been carried out
	for attempt := 0; ; attempt++ {
		keep := time.Until(end)
		if k.down && attempt > len(k.addresses) {
			if keep <= 0 || time.Now().After(k.deadline) {
				break
			}
			time.Sleep(min(lockRetry, k.checkEvery()))
		}
		if k.down && !k.reconnect() {
			continue
		}
		r, err := k.askUnlock(keep)
		switch {
		case err == nil && r.Kind == ':':
			return r.Is(1) || sent
		case err == nil && keep <= 0:
			return true // no majority: the proxy goes on in the background
		case err == nil && strings.HasPrefix(r.Text, "ERR "):
			k.say("lock %s does not stay closed for --hold: %s", k.allKeys(), r.Text)
			return true
		}
		sent, k.down = true, true
	}
	if time.Until(end) > 0 {
		k.say("lock %s may not stay closed for --hold: no proxy answers", k.allKeys())
	}
	return true
}

// reconnect makes a connection to the next proxy the one in use.
func (k *keeper) reconnect() bool {
	at := (k.at + 1) % len(k.addresses)
	k.at = at
	c, err := k.dial(context.Background(), k.addresses[at])
	if err != nil {
		return false
	}
	k.leave(k.link)
	k.use(newLink(c), at)
	return true
}

// askUnlock sends UNLOCK and returns the reply. keep is how long the lock is to stay closed.
func (k *keeper) askUnlock(keep time.Duration) (proxyReply, error) {
	earlier := 0
	if !k.asked.IsZero() {
		earlier, k.asked = 1, time.Time{} // the answer to EXTEND comes first
	}
	r, err := k.link.call(unlockTimeout, earlier, k.unlockArgs(keep)...)
	which, limit := ttlLimit(r.Text)
	if err != nil || r.Kind != '-' || which != "min" {
		return r, err
	}
	return k.link.call(unlockTimeout, 0, k.unlockArgs(limit)...)
}

// unlockArgs returns the UNLOCK command.
func (k *keeper) unlockArgs(keep time.Duration) []string {
	args := append([]string{"UNLOCK", k.key(), k.token}, k.furtherKeys()...)
	if keep >= time.Millisecond {
		args = append(args, "KEEP", plain.Duration(keep))
	}
	return args
}
