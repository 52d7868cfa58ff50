package embedded

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestBufConnKeepsPipelinesGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newBufConns("x", 8, 0)
		if n, err := client.Write([]byte("12345678")); n != 8 || err != nil {
			t.Fatalf("a write within the buffer waits or fails: %d %v", n, err)
		}
		wrote := make(chan int)
		go func() {
			n, _ := client.Write([]byte("abcdefghijkl"))
			wrote <- n
		}()
		synctest.Wait()
		select {
		case <-wrote:
			t.Error("a write beyond the buffer does not wait")
		default:
		}
		got := make([]byte, 20)
		if _, err := io.ReadFull(server, got); err != nil || string(got) != "12345678abcdefghijkl" {
			t.Errorf("got %q %v", got, err)
		}
		if n := <-wrote; n != 12 {
			t.Errorf("wrote %d", n)
		}
	})
}

func TestBufConnServerWritesWithoutWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newBufConns("x", 8, 100)
		big := bytes.Repeat([]byte("r"), 101)
		if n, err := server.Write(big); n != 101 || err != nil {
			t.Fatalf("got %d %v", n, err)
		}
		if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("beyond the limit: got %v", err)
		}
		paced := make(chan bool)
		go func() { paced <- server.waitUnread(50) }()
		synctest.Wait()
		io.ReadFull(client, make([]byte, 50))
		synctest.Wait()
		select {
		case <-paced:
			t.Error("goes on with 51 bytes unread")
		default:
		}
		io.ReadFull(client, make([]byte, 1))
		if !<-paced {
			t.Error("an open connection counts as closed")
		}
		client.Close()
		if server.waitUnread(0) {
			t.Error("a closed connection counts as open")
		}
	})
}

func TestBufConnCloseEndsBothDirections(t *testing.T) {
	client, server := newBufConns("x", 8, 0)
	client.Write([]byte("last"))
	client.CloseWrite()
	select {
	case <-server.leaving():
	default:
		t.Error("leaving is not told")
	}
	if got, err := io.ReadAll(server); string(got) != "last" || err != nil {
		t.Errorf("after the client's half: got %q %v", got, err)
	}
	if server.left() {
		t.Error("half a close counts as a whole one")
	}
	server.Write([]byte("answer"))
	server.Close()
	if got, err := io.ReadAll(client); string(got) != "answer" || err != nil {
		t.Errorf("after the server's close: got %q %v", got, err)
	}
	if _, err := client.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing after CloseWrite: got %v", err)
	}

	client, server = newBufConns("x", 8, 0)
	client.Close()
	if _, err := server.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) || !server.left() {
		t.Errorf("writing to nobody: got %v", err)
	}
	if _, err := server.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("reading from nobody: got %v", err)
	}
	if _, err := client.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading after Close: got %v", err)
	}
	client.Close() // twice is no fault
}

func TestBufConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := newBufConns("x", 4, 0)
		start := time.Now()
		client.SetReadDeadline(start.Add(time.Second))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		client.SetDeadline(start.Add(3 * time.Second))
		if n, err := client.Write([]byte("abcdef")); n != 4 || !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != 3*time.Second {
			t.Errorf("write: %d %v after %v", n, err, time.Since(start))
		}
		client.SetDeadline(time.Time{})
		go func() { time.Sleep(time.Hour); server.Write([]byte("late")) }()
		if n, err := client.Read(make([]byte, 9)); n != 4 || err != nil {
			t.Errorf("without a deadline: %d %v", n, err)
		}
		go func() { time.Sleep(time.Hour); client.SetReadDeadline(time.Unix(1, 0)) }()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline in the past must end a read that waits: %v", err)
		}
	})
}

func TestBufConnGivesMemoryBack(t *testing.T) {
	client, server := newBufConns("x", 1<<20, 0)
	chunk := make([]byte, 1<<20)
	client.Write(chunk)
	io.ReadFull(server, chunk)
	if c := cap(server.in.buf); c != 0 {
		t.Errorf("%d bytes are kept by an empty connection", c)
	}
	for range 1000 { // never empty, and yet bounded
		client.Write(chunk[:100<<10])
		io.ReadFull(server, chunk[:100<<10-1])
		if unread := len(server.in.buf) - server.in.off; unread > 2000 {
			t.Fatalf("%d unread", unread)
		}
		server.Read(chunk[:1])
		client.Write(chunk[:1])
	}
	if c := cap(server.in.buf); c > 1<<20 {
		t.Errorf("%d bytes are kept for one", c)
	}
}
