package netpoll

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
)

// fill adds b to x.
func fill(x *Buffer, b string) {
	for len(b) > 0 {
		n := copy(x.Room(), b)
		x.Grew(n)
		b = b[n:]
	}
}

func TestBufferKeepsBytesInOrder(t *testing.T) {
	var x Buffer
	want := ""
	check := func(what string) {
		t.Helper()
		if string(x.Bytes()) != want {
			t.Fatalf("%s: %d bytes, want %d", what, len(x.Bytes()), len(want))
		}
	}
	add := func(b string) { fill(&x, b); want += b }
	skip := func(n int) { x.Skip(n); want = want[n:] }
	add("abc")
	check("some")
	skip(2)
	x.Release()
	check("released with a byte left")
	add(strings.Repeat("x", ChunkSize-3))
	if x.pooled == nil || len(x.mem) != ChunkSize {
		t.Error("not one chunk of the pool")
	}
	add("yz") // moves the bytes to the beginning
	check("full")
	if len(x.mem) != ChunkSize {
		t.Error("grew while there was room")
	}
	add(strings.Repeat("w", 2*ChunkSize))
	check("grown")
	var c Buffer
	fill(&c, "chunk")
	x.Hold(c)
	want += "chunk"
	check("with another")
	skip(len(want))
	c = Buffer{}
	fill(&c, "chunk")
	mem := c.pooled
	x.Hold(c)
	want = "chunk"
	check("only another")
	if x.pooled != mem {
		t.Error("the bytes were copied")
	}
	skip(len(want))
	x.Release()
	if x.mem != nil || x.pooled != nil {
		t.Error("memory without bytes")
	}
	if x.Hold(Buffer{}); len(x.Room()) == 0 {
		t.Error("no room behind an empty one")
	}
}

// dialAccepted returns both sides of a connection over ln.
func dialAccepted(t *testing.T, ln net.Listener) (net.Conn, net.Conn) {
	t.Helper()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

// Receive reads plain sockets and others, and keeps the bytes that received leaves.
func TestReceiveKeepsWhatIsLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	socket := func() (net.Conn, net.Conn) { return dialAccepted(t, ln) }
	for _, c := range []struct {
		name  string
		conns func() (net.Conn, net.Conn)
	}{{"socket", socket}, {"pipe", net.Pipe}} {
		t.Run(c.name, func(t *testing.T) {
			a, b := c.conns()
			defer a.Close()
			all := bytes.Repeat([]byte("0123456789"), 50000)
			go func() {
				b.Write(all)
				b.Close()
			}()
			var x Buffer
			if err := Receive(a, &x, func() bool { return len(x.Bytes()) >= 10 }); err != nil {
				t.Fatal(err)
			}
			err := Receive(a, &x, func() bool { return false })
			if err != io.EOF || !bytes.Equal(x.Bytes(), all) {
				t.Errorf("%d bytes, %v", len(x.Bytes()), err)
			}
			x.Skip(len(all))
			if err := Receive(a, &x, func() bool { return false }); err != io.EOF || x.mem != nil {
				t.Errorf("behind the end: %v, memory %d", err, len(x.mem))
			}
			a.Close()
			if err := Receive(a, &x, func() bool { return false }); err == nil || err == io.EOF {
				t.Errorf("closed: %v", err)
			}
		})
	}
}
