package quorum

import (
	"strconv"
	"time"
)

// command is one request on a lane, from being queued to being answered. The lane builds its bytes from it, so it can
// send it a second time with the body of its script.
type command struct {
	op      opKind
	to      receiver // who is told; nil: nobody
	key     string   // full key
	secret  string
	fence   uint64        // raise, topup
	ttl     time.Duration // acquire, extend, topup: whole milliseconds
	owner   string        // acquire, topup: label behind the fence
	voters  voters        // topup: whose grants made the lease
	publish bool          // release: tell those who wait for the key
	again   bool          // has been sent with its body already
	args    []string      // counters, admit: ARGV; remember, recall: what stands behind the key
	sent    time.Duration // when it was queued, as lane.clock counts
}

// receiver is told how a command on a lane ended: exactly one of reply and gone is called, once, from a
// goroutine of the lane that holds none of its locks. They must not block.
type receiver interface {
	// reply hands over the answer, which is good only until it returns.
	reply(lane int, op opKind, r *reply)
	// gone says that the lane broke first. Without written no byte of the command was handed to the connection.
	gone(lane int, op opKind, err error, written bool)
}

// encoder turns commands into bytes. It is the same for all lanes of a Quorum and never changes.
type encoder struct {
	stateKey string // name of the hash of counters
	fencing  bool

	unguarded bool // GuardOff: masters vote under any record
}

// append writes c as EVALSHA, or as EVAL with the body of the script. record is the one under which the master votes, empty for
// any.
//
//	> *10\r\n$7\r\nEVALSHA\r\n$40\r\n<sha>\r\n$1\r\n2\r\n$8\r\nlock:job\r\n$21\r\nlockproxy:state:lock:\r\n
//	  $40\r\n<secret>\r\n$4\r\n5000\r\n$3\r\n714\r\n$0\r\n\r\n$75\r\nA <run_id> <fingerprint> <nonce>\r\n
func (e *encoder) append(b []byte, c *command, body bool, record string) []byte {
	switch c.op {
	case opPing:
		return append(b, "*1\r\n$4\r\nPING\r\n"...)
	case opServer:
		return append(b, "*1\r\n$4\r\nINFO\r\n"...)
	case opConfig:
		return append(b, "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$8\r\n*append*\r\n"...)
	case opRemember:
		return appendCommand(b, append([]string{"HSET", c.key}, c.args...)...)
	case opRecall:
		return appendCommand(b, append([]string{"HGET", c.key}, c.args...)...)
	}
	s := &scripts[c.op]
	if body {
		b = append(b, s.eval...)
	} else {
		b = append(b, s.sha...)
	}
	if s.keys != stateOnly {
		b = appendBulk(b, c.key)
	}
	if s.keys != lockOnly {
		b = appendBulk(b, e.stateKey)
	}
	switch c.op {
	case opInfo:
		return appendBulk(b, record)
	case opLook, opCounters, opAdmit:
		for _, arg := range c.args {
			b = appendBulk(b, arg)
		}
		return b
	case opFree:
		return appendBulk(b, releasedPrefix)
	}
	b = appendBulk(b, c.secret)
	switch c.op {
	case opRelease:
		if c.publish {
			b = appendBulk(b, releasedPrefix)
		} else {
			b = appendBulk(b, "")
		}
	case opExtend:
		b = appendInt(b, uint64(c.ttl.Milliseconds()))
	case opAcquire:
		b = appendInt(b, uint64(c.ttl.Milliseconds()))
		b = e.appendField(b, c.key)
		b = appendBulk(b, c.owner)
	case opRaise:
		b = appendInt(b, c.fence)
		b = e.appendField(b, c.key)
	case opTopUp:
		b = appendInt(b, uint64(c.ttl.Milliseconds()))
		b = e.appendField(b, c.key)
		b = appendInt(b, c.fence)
		b = appendBulk(b, c.owner)
	}
	return appendBulk(b, record)
}

// appendField writes the field of the key's counter, empty without fencing.
func (e *encoder) appendField(b []byte, key string) []byte {
	if !e.fencing {
		return appendBulk(b, "")
	}
	return appendInt(b, uint64(slot(key)))
}

func appendArray(b []byte, n int) []byte {
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(n), 10)
	return append(b, '\r', '\n')
}

func appendBulk(b []byte, s string) []byte {
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(s)), 10)
	b = append(b, '\r', '\n')
	b = append(b, s...)
	return append(b, '\r', '\n')
}

// appendInt writes n as a bulk string.
func appendInt(b []byte, n uint64) []byte {
	var digits [20]byte
	text := strconv.AppendUint(digits[:0], n, 10)
	b = append(b, '$')
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, '\r', '\n')
	b = append(b, text...)
	return append(b, '\r', '\n')
}

// appendCommand writes any command.
func appendCommand(b []byte, args ...string) []byte {
	b = appendArray(b, len(args))
	for _, a := range args {
		b = appendBulk(b, a)
	}
	return b
}
