package quorum

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// benchMaster is a master that costs as little as it can and allocates nothing, so that what a benchmark counts is the quorum's.
// It grants everything with one fence and releases everything; what it does not know, a fakeMaster answers.
type benchMaster struct {
	ln    net.Listener
	other *fakeMaster
	wg    sync.WaitGroup
}

// startBenchMasters starts n of them on the loopback interface.
func startBenchMasters(b *testing.B, n int) (addrs []string) {
	b.Helper()
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		m := &benchMaster{ln: ln, other: newFakeMaster("run-" + strconv.Itoa(i))}
		m.wg.Go(m.accept)
		b.Cleanup(func() {
			_ = ln.Close()
			m.wg.Wait() // the lanes are closed before, by an earlier end of the quorum
		})
		addrs = append(addrs, ln.Addr().String())
	}
	return addrs
}

func (m *benchMaster) accept() {
	for {
		c, err := m.ln.Accept()
		if err != nil {
			return
		}
		m.wg.Go(func() { m.serve(c) })
	}
}

// serve answers whatever has come with one packet, as Redis does.
func (m *benchMaster) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	far := &fakeConn{memConn: &memConn{in: newHalf(), out: newHalf()}, authed: true}
	in, out := make([]byte, 1<<20), make([]byte, 0, 1<<20)
	kept := 0
	for {
		n, err := c.Read(in[kept:])
		if err != nil {
			return
		}
		have := in[:kept+n]
		out = out[:0]
		for {
			size, script := benchFrame(have)
			if size == 0 {
				break
			}
			if script == numScripts {
				out = append(out, m.ask(far, have[:size])...)
			} else {
				out = appendBenchAnswer(out, script)
			}
			have = have[size:]
		}
		kept = copy(in, have)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// ask lets the fakeMaster answer.
func (m *benchMaster) ask(far *fakeConn, frame []byte) string {
	var args []string
	for lines := strings.Split(string(frame), "\r\n")[1:]; len(lines) > 1; { // no argument has a line end, but scripts' bodies
		size, _ := strconv.Atoi(lines[0][1:])
		arg := lines[1]
		lines = lines[2:]
		for len(arg) < size {
			arg += "\r\n" + lines[0]
			lines = lines[1:]
		}
		args = append(args, arg)
	}
	answer, _ := m.other.run(far, args)
	return answer
}

// benchFrame measures the command at the front of b: 0 if it is not complete. script is which one's EVALSHA it is,
// numScripts for anything else.
func benchFrame(b []byte) (size int, script opKind) {
	at, n := benchNumber(b, 0)
	for range n {
		var length int
		if at, length = benchNumber(b, at); at == 0 {
			return 0, numScripts
		}
		if at += length + 2; at > len(b) {
			return 0, numScripts
		}
	}
	for _, op := range []opKind{opAcquire, opRelease, opRaise, opCheck, opTopUp} {
		if sha := scripts[op].sha; at > len(sha) && string(b[:len(sha)]) == sha {
			return at, op
		}
	}
	return at, numScripts
}

// benchNumber reads a header line such as "$5" at b[at:] and returns where it ends, 0 if it does not.
func benchNumber(b []byte, at int) (end, n int) {
	for i := at + 1; i < len(b); i++ {
		if b[i] == '\n' {
			return i + 1, n
		}
		if b[i] != '\r' {
			n = 10*n + int(b[i]-'0')
		}
	}
	return 0, 0
}

// appendBenchAnswer answers a script: all is granted, done, there.
func appendBenchAnswer(b []byte, script opKind) []byte {
	switch script {
	case opAcquire:
		now := time.Now()
		b = append(b, "*4\r\n:1\r\n:7\r\n:"...)
		b = strconv.AppendInt(b, now.Unix(), 10)
		b = append(b, "\r\n:"...)
		b = strconv.AppendInt(b, int64(now.Nanosecond()/1000), 10)
		return append(b, "\r\n"...)
	case opTopUp:
		return append(b, ":2\r\n"...)
	}
	return append(b, ":1\r\n"...)
}
