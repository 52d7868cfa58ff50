package lab

import (
	"os"
	"path/filepath"
	"testing"
)

// The ways in which a master comes back, and what it remembers then.

// AOFAlways are the arguments of a server that loses nothing it has answered for.
func AOFAlways() []string {
	return []string{"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no"}
}

// RestartEmpty ends the server at once, if it still runs, and starts it again without its data.
func (s *Redis) RestartEmpty(t testing.TB) {
	t.Helper()
	s.restart(t, redisDir(t))
}

// RestartKept ends the server at once, if it still runs, and starts it again with the files it has
// written, which are none unless it was told to write any. More arguments are added to those it
// had, for good.
func (s *Redis) RestartKept(t testing.TB, args ...string) {
	t.Helper()
	s.args = append(s.args, args...)
	s.restart(t, s.dir)
}

// RestartWithRDB ends the server at once, if it still runs, and starts it again with the dump that
// SaveRDB returned: it remembers what was true then.
func (s *Redis) RestartWithRDB(t testing.TB, dump string) {
	t.Helper()
	dir := redisDir(t)
	copyFile(t, dump, filepath.Join(dir, "dump.rdb"))
	s.restart(t, dir)
}

// SaveRDB makes the server write a dump and returns the name of a copy of it.
func (s *Redis) SaveRDB(t testing.TB) string {
	t.Helper()
	s.Must(t, "SAVE")
	kept := filepath.Join(redisDir(t), "old.rdb")
	copyFile(t, filepath.Join(s.dir, "dump.rdb"), kept)
	return kept
}

func (s *Redis) restart(t testing.TB, dir string) {
	t.Helper()
	s.Kill()
	s.dir = dir
	WaitFor(t, "redis at its old address", Patience, func() bool { return s.start(t) })
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// SaveDisk returns a copy of the server's files as they stand now: a snapshot of its disk.
func (s *Redis) SaveDisk(t testing.TB) string {
	t.Helper()
	kept := redisDir(t)
	if err := os.CopyFS(kept, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return kept
}

// RestartWithDisk ends the server at once, if it still runs, and starts it again with the files
// that SaveDisk returned.
func (s *Redis) RestartWithDisk(t testing.TB, snapshot string) {
	t.Helper()
	s.restart(t, snapshot)
}
