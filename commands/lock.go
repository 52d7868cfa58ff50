package commands

import (
	"go.uber.org/zap"

	"lockproxy/quorum"
)

// lock is LOCK key ttl [WAIT timeout] [SESSION] [OWNER label] [FULL]
//
//	> *3\r\n$4\r\nLOCK\r\n$3\r\njob\r\n$4\r\n5000\r\n
//	< $57\r\n0000000000000007:9f86...\r\n  the token, or
//	< $-1\r\n                              held by another (RESP3: _\r\n)
//
// With FULL, granted:
//
//	< *3\r\n$57\r\n0000000000000007:9f86...\r\n:7\r\n:4941\r\n  token, fence, validity in milliseconds
func (h *handlers) lock(c *call) {
	if c.wait || c.args.session || c.owner != "" {
		c.WriteError("ERR WAIT, SESSION and OWNER are not available in this version")
		return
	}
	lease, err := h.Locker.Acquire(c.session.Context(), c.key, c.ttl)
	if err != nil {
		h.writeFailure(c, err)
		return
	}
	c.session.OnUndelivered(func() {
		h.Log.Debug("lock granted, but its reply cannot be delivered: released", zap.String("key", c.key))
		h.Locker.Abandon(c.key, lease.Token)
	})
	c.writeLease(lease)
}

// writeLease writes the reply to a LOCK that was granted.
func (c *call) writeLease(lease quorum.Lease) {
	if !c.full {
		c.WriteBulkString(lease.Token.String())
		return
	}
	c.WriteArray(3)
	c.WriteBulkString(lease.Token.String())
	c.WriteUint64(lease.Token.Fence)
	c.WriteInt64(lease.Validity.Milliseconds())
}

// parseLater accepts any arguments of a command that is not there yet.
func parseLater(*handlers, [][]byte) (args, error) { return args{}, nil }

// later answers the commands whose names are taken already, so that they never reach the upstream.
func (h *handlers) later(c *call) {
	c.WriteError("ERR the command '" + c.name + "' is not available in this version")
}
