package commands

import "lockproxy/quorum"

// lockinfo is LOCKINFO key
//
//	> *2\r\n$8\r\nLOCKINFO\r\n$3\r\njob\r\n
//	< *12\r\n$4\r\nheld\r\n:3\r\n$7\r\nmasters\r\n:3\r\n$3\r\nttl\r\n:4712\r\n$5\r\nfence\r\n:7\r\n$5\r\nowner\r\n$3\r\nme1\r\n$7\r\nwaiting\r\n:0\r\n
//	< $-1\r\n  no token holds a majority
//
// RESP3: a map, %6\r\n..., and _\r\n.
func (s *Service) lockinfo(c *call) {
	info, err := s.o.Locker.Inspect(c.session.Context(), c.key)
	switch {
	case err != nil:
		s.writeFailure(c, err)
	case info.Held == 0:
		c.writeNull()
	default:
		s.writeInfo(c, info, false)
	}
}

// writeInfo writes the map for one lock, with its key in front if withKey.
func (s *Service) writeInfo(c *call, info quorum.Info, withKey bool) {
	fields := 6
	if withKey {
		fields++
	}
	c.writeMap(fields)
	if withKey {
		c.writeText("key", info.Key)
	}
	c.writeNumber("held", int64(info.Held))
	c.writeNumber("masters", int64(info.Masters))
	c.writeNumber("ttl", info.TTL.Milliseconds())
	c.writeNumber("fence", int64(info.Fence))
	c.writeText("owner", info.Owner)
	c.writeNumber("waiting", int64(s.queues.Waiters(info.Key)))
}

// parseInfo parses LOCKINFO key.
func parseInfo(s *Service, argv [][]byte) (a args, err error) {
	if len(argv) != 1 {
		return a, errArity("lockinfo")
	}
	a.key, err = s.parseKey(argv[0])
	return a, err
}
