package commands

// unlock is UNLOCK key token
//
//	> *3\r\n$6\r\nUNLOCK\r\n$3\r\njob\r\n$57\r\n0000000000000007:9f86...\r\n
//	< :1\r\n  released, or
//	< :0\r\n  this token does not hold the lock: expired, taken over, released before
func (h *handlers) unlock(c *call) {
	released, err := h.Locker.Release(c.session.Context(), c.key, c.token)
	switch {
	case err != nil:
		h.writeFailure(c, err)
	case released:
		c.WriteInt(1)
	default:
		c.WriteInt(0)
	}
}
