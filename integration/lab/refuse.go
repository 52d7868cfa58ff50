package lab

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// These methods make a server refuse commands. Each returns a function that ends the fault.

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

// ReadOnly makes the server a replica without a master, so that every write answers -READONLY.
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
	WaitFor(t, "the replica to be in sync", 2*Patience,
		func() bool { return s.Info(t, "replication", "master_link_status") == "up" })
	return func() { t.Helper(); s.Must(t, "REPLICAOF", "NO", "ONE") }
}

// Misconfigured makes every write answer -MISCONF: the server must save its data and cannot,
// because there is a directory with the dump's name.
func (s *Redis) Misconfigured(t testing.TB) (end func()) {
	t.Helper()
	dump := filepath.Join(s.dir, "dump.rdb")
	s.savedAll(t)
	_ = os.Remove(dump) // the file of an earlier save, not a directory
	if err := os.MkdirAll(filepath.Join(dump, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.Must(t, "CONFIG", "SET", "save", "3600 1000000")
	// On a busy machine the fork may take longer than Ask waits, and Ask may ask twice. The loop
	// below waits for the result: any save that begins now fails.
	reply, err := s.Ask("BGSAVE")
	if err == nil && !strings.HasPrefix(reply, "+Background saving") && !strings.Contains(reply, "already in progress") {
		t.Fatalf("BGSAVE at %s: %q", s.Addr, reply)
	}
	WaitFor(t, "a failed save", Patience, func() bool {
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

// savedAll waits until no save is under way, which could create the dump at the wrong moment.
func (s *Redis) savedAll(t testing.TB) {
	t.Helper()
	WaitFor(t, "the end of all saves", Patience,
		func() bool { return s.Info(t, "persistence", "rdb_bgsave_in_progress") == "0" })
}

// Loading restarts the server with n keys that take one millisecond each to load, and without its
// earlier data. It returns while the server answers -LOADING.
func (s *Redis) Loading(t testing.TB, n int) {
	t.Helper()
	s.RestartEmpty(t)
	s.Do(t, "DEBUG", "POPULATE", strconv.Itoa(n), "loading")
	s.Must(t, "SAVE")
	s.Kill()
	args := s.args
	s.args = append(args[:len(args):len(args)], "--key-load-delay", "1000",
		"--loading-process-events-interval-bytes", "1024")
	s.launch(t)
	s.args = args
	WaitFor(t, "-LOADING", Patience, func() bool {
		reply, err := s.Ask("GET", "a")
		return err == nil && strings.HasPrefix(reply, "-LOADING ")
	})
}
