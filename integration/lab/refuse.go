package lab

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The ways in which a master answers and yet does nothing. Each returns what ends it.

// OutOfMemory makes every command that could need memory answer -OOM.
func (s *Redis) OutOfMemory(t testing.TB) (end func()) {
	t.Helper()
	s.Must(t, "CONFIG", "SET", "maxmemory", "1")
	return func() { t.Helper(); s.Must(t, "CONFIG", "SET", "maxmemory", "0") }
}

// TooFewReplicas makes every write answer -NOREPLICAS.
func (s *Redis) TooFewReplicas(t testing.TB) (end func()) {
	t.Helper()
	s.Must(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	return func() { t.Helper(); s.Must(t, "CONFIG", "SET", "min-replicas-to-write", "0") }
}

// ReadOnly makes the server a replica of nobody: every write answers -READONLY.
func (s *Redis) ReadOnly(t testing.TB) (end func()) {
	t.Helper()
	s.Must(t, "REPLICAOF", "127.0.0.1", "1")
	return func() { t.Helper(); s.Must(t, "REPLICAOF", "NO", "ONE") }
}

// ReplicaOf makes the server a replica of another and waits until it has its data.
func (s *Redis) ReplicaOf(t testing.TB, other *Redis) (end func()) {
	t.Helper()
	host, port, err := net.SplitHostPort(other.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "REPLICAOF", host, port)
	WaitFor(t, "replica in step", 2*Patience, func() bool { return s.Info(t, "replication", "master_link_status") == "up" })
	return func() { t.Helper(); s.Must(t, "REPLICAOF", "NO", "ONE") }
}

// Misconfigured makes every write answer -MISCONF: the server is to save its data and cannot,
// since a directory stands at the dump's place.
func (s *Redis) Misconfigured(t testing.TB) (end func()) {
	t.Helper()
	dump := filepath.Join(s.dir, "dump.rdb")
	s.savedAll(t)
	_ = os.Remove(dump) // of an earlier save; a directory stays
	if err := os.MkdirAll(filepath.Join(dump, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "CONFIG", "SET", "save", "3600 1000000")
	// On a busy machine the fork may take longer than an answer may; what comes of it is waited
	// for below.
	if reply, err := s.Ask("BGSAVE"); err == nil && !strings.HasPrefix(reply, "+Background saving") {
		t.Fatalf("BGSAVE at %s: %q", s.Addr, reply)
	}
	WaitFor(t, "a save that fails", Patience, func() bool {
		info, err := s.Ask("INFO", "persistence")
		return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err\r\n")
	})
	return func() {
		t.Helper()
		s.Must(t, "CONFIG", "SET", "save", "")
		s.savedAll(t)
		if err := os.RemoveAll(dump); err != nil {
			t.Fatal(err)
		}
	}
}

// savedAll waits until no save is under way: it would put a file where a directory is to be, or
// the other way round.
func (s *Redis) savedAll(t testing.TB) {
	t.Helper()
	WaitFor(t, "no save under way", Patience, func() bool { return s.Info(t, "persistence", "rdb_bgsave_in_progress") == "0" })
}

// Loading ends the server and starts it again so that it answers -LOADING for about as long as n
// keys take at one millisecond each. It returns while that lasts; nothing of its data is kept.
func (s *Redis) Loading(t testing.TB, n int) {
	t.Helper()
	s.RestartEmpty(t)
	s.Do(t, "DEBUG", "POPULATE", strconv.Itoa(n), "loading")
	s.Must(t, "SAVE")
	s.Kill()
	args := s.args
	s.args = append(args[:len(args):len(args)], "--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
	s.launch(t)
	s.args = args
	WaitFor(t, "-LOADING", Patience, func() bool {
		reply, err := s.Ask("GET", "a")
		return err == nil && strings.HasPrefix(reply, "-LOADING ")
	})
}
