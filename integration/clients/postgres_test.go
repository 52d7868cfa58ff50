package clients

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// postgres is a PostgreSQL server, reached over a Unix socket.
type postgres struct{ dir string }

// startPostgres skips the test if PostgreSQL is not installed, even if CI is set.
func startPostgres(t *testing.T) postgres {
	t.Helper()
	psql := ifRuns(t, "psql", "--version")
	installed, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		installed = append(installed, path)
	}
	if len(installed) == 0 {
		t.Skipf("found %s, but no initdb", psql)
	}
	bin := filepath.Dir(slices.Max(installed))
	dir, err := os.MkdirTemp("/tmp", "pg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	owner := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		owner.Credential = unprivileged(t, dir)
	}
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", dir+"/data", "-U", "test", "--auth", "trust", "--no-sync",
		"-E", "UTF8")
	initdb.Dir, initdb.SysProcAttr = dir, owner
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", dir+"/data", "-k", dir, "-c", "listen_addresses=", "-c",
		"fsync=off")
	server.Dir, server.SysProcAttr = dir, owner
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // ends it at once
		_ = server.Wait()
	})
	db := postgres{dir}
	lab.WaitFor(t, "PostgreSQL", lab.Patience, func() bool { return db.run("SELECT 1") == "1" })
	return db
}

// unprivileged makes a user without rights the owner of dir.
func unprivileged(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err1 != nil || err2 != nil {
		t.Fatalf("ids of %v: %v, %v", u, err1, err2)
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func (db postgres) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "psql", append([]string{"-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", db.dir, "-U",
		"test", "postgres"}, args...)...)
}

// run returns the rows of a statement, or its error.
func (db postgres) run(statement string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := db.command(ctx, "-q", "-c", statement).CombinedOutput()
	if err != nil {
		return err.Error() + ": " + string(out)
	}
	return strings.TrimSpace(string(out))
}

func (db postgres) query(t *testing.T, statement string) string {
	t.Helper()
	got := db.run(statement)
	if strings.HasPrefix(got, "exit status") {
		t.Fatal(got)
	}
	return got
}

// session is one connection, on which a transaction may stay open.
type session struct {
	in  io.Writer
	out *bufio.Scanner
}

func (db postgres) open(t *testing.T) session {
	t.Helper()
	c := db.command(t.Context(), "-q")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = c.Wait() })
	return session{in, bufio.NewScanner(out)}
}

// query returns the output of psql for statements.
func (s session) query(t *testing.T, statements string) string {
	t.Helper()
	if _, err := io.WriteString(s.in, statements+"\n\\echo done\n"); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for s.out.Scan() && s.out.Text() != "done" {
		lines = append(lines, s.out.Text())
	}
	return strings.Join(lines, "\n")
}

// fenceSQL returns the two statements of fence.sql, the second for a lock and a fence.
func fenceSQL(t *testing.T) (create string, claim func(name, fence string) string) {
	t.Helper()
	text, err := os.ReadFile("python/recipes/fence.sql")
	if err != nil {
		t.Fatal(err)
	}
	create, second, ok := strings.Cut(string(text), "\n\n")
	if !ok {
		t.Fatalf("fence.sql: got %s", text)
	}
	return create, func(name, fence string) string {
		return strings.NewReplacer(":name", "'"+name+"'", ":fence", fence).Replace(second)
	}
}
