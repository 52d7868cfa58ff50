package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// These methods restart a server with different parts of its data.

// AOFAlways returns the arguments of a server that loses no write after its reply.
func AOFAlways() []string {
	return []string{"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "no"}
}

// RestartEmpty kills the server, if it runs, and starts it again without its data.
func (s *Redis) RestartEmpty(t testing.TB) {
	t.Helper()
	s.restart(t, redisDir(t))
}

// RestartKept kills the server, if it runs, and starts it again with its files; by default it
// writes none. The arguments are added to earlier ones, also for later restarts.
func (s *Redis) RestartKept(t testing.TB, args ...string) {
	t.Helper()
	s.args = append(s.args, args...)
	s.restart(t, s.dir)
}

// RestartWithRDB kills the server, if it runs, and starts it again with a dump that SaveRDB
// returned.
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
	WaitFor(t, "redis-server at its old address", Patience, func() bool { return s.start(t) })
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

// SaveDisk returns a copy of the server's present files.
func (s *Redis) SaveDisk(t testing.TB) string {
	t.Helper()
	kept := redisDir(t)
	if err := os.CopyFS(kept, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return kept
}

// RestartWithDisk kills the server, if it runs, and starts it again with files that SaveDisk
// returned.
func (s *Redis) RestartWithDisk(t testing.TB, snapshot string) {
	t.Helper()
	s.restart(t, snapshot)
}

// RestartWithRDBThenAOF is RestartWithRDB for a server with an append-only file. The server starts
// without one; CONFIG SET makes it write one.
func (s *Redis) RestartWithRDBThenAOF(t testing.TB, dump string) {
	t.Helper()
	s.args = append(s.args, "--appendonly", "no")
	s.RestartWithRDB(t, dump)
	s.Must(t, "CONFIG", "SET", "appendonly", "yes", "appendfsync", "always")
	WaitFor(t, "the append-only file", Patience, func() bool {
		return s.Info(t, "persistence", "aof_rewrite_in_progress") == "0" &&
			s.Info(t, "persistence", "aof_rewrite_scheduled") == "0"
	})
}

// AOFSize returns the length of the server's append-only file, in bytes.
func (s *Redis) AOFSize(t testing.TB) int64 {
	t.Helper()
	info, err := os.Stat(s.aof(t))
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// RestartRepaired kills the server, if it runs. It cuts the append-only file a few bytes after
// size, within a command, repairs the file with redis-check-aof --fix, and starts the server
// again.
func (s *Redis) RestartRepaired(t testing.TB, size int64) {
	t.Helper()
	check := Tool(t, "redis-check-aof")
	s.Kill()
	file := s.aof(t)
	const partOfCommand = 5
	if err := os.Truncate(file, size+partOfCommand); err != nil {
		t.Fatal(err)
	}
	manifest := strings.TrimSuffix(filepath.Base(file), ".1.incr.aof") + ".manifest"
	fix := exec.Command(check, "--fix", manifest)
	fix.Dir, fix.Stdin = filepath.Dir(file), strings.NewReader("y\n")
	if out, err := fix.CombinedOutput(); err != nil || !strings.Contains(string(out), "Successfully truncated AOF") {
		t.Fatalf("redis-check-aof: %v\n%s", err, out)
	}
	s.restart(t, s.dir)
}

// aof returns the name of the file to which the server appends its writes. The server must not
// have rewritten it.
func (s *Redis) aof(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "appendonlydir", "*.1.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("append-only files of %s: got %q (%v), want one", s.Addr, files, err)
	}
	return files[0]
}
