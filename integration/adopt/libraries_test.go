package adopt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// library is a lock library, and how it differs from the others.
type library struct {
	name     string
	language *language
	noExtend bool     // it cannot extend a lock
	retakes  bool     // its extension takes a lock that has expired
	mute     bool     // its release does not say that the lock was lost
	renews   bool     // it extends by itself, before the lock expires
	forever  bool     // with a ttl of 0 it asks for a lock without an end
	silent   bool     // its client takes an error for false
	ops      []string // more that it can do
	prefix   string   // that it puts before a key
}

var libraries = []library{
	{name: "redis-py", language: python, forever: true, ops: []string{"held", "replace", "reacquire"}},
	{name: "redislock", language: golang, ops: []string{"held"}},
	{name: "redsync", language: golang},
	{name: "go-zero", language: golang, retakes: true},
	{name: "redlock 4", language: node},
	{name: "redlock 5", language: node},
	{name: "sesamecare", language: node},
	{name: "redis-semaphore", language: node, mute: true, prefix: "mutex:"},
	{name: "redis-semaphore, renewed", language: node, noExtend: true, mute: true, renews: true, prefix: "mutex:"},
	{name: "verrou", language: node, forever: true, ops: []string{"held", "force"}},
	{name: "ioredis-lock", language: node},
	{name: "laravel", language: php, noExtend: true, forever: true, silent: true, ops: []string{"force"}},
}

func (l library) can(op string) bool { return slices.Contains(l.ops, op) }

// patterns are the adopt-keys that the keys of these tests match.
const patterns = "lock:*,mutex:lock:*"

// language starts the program of a folder.
type language struct {
	folder string
	single bool // a process serves one client only
	// command returns the program and its arguments, or an error that names the missing package.
	command func() ([]string, error)
}

var (
	python = &language{folder: "python", command: sync.OnceValues(pythonCommand)}
	golang = &language{folder: "go", command: sync.OnceValues(goCommand)}
	node   = &language{folder: "node", command: sync.OnceValues(nodeCommand)}
	php    = &language{folder: "php", command: sync.OnceValues(phpCommand), single: true}
)

// pythonCommand needs Debian's python3-redis.
func pythonCommand() ([]string, error) {
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(name, "-c", "import redis").Run() == nil {
			return []string{name, "locks.py"}, nil
		}
	}
	return nil, fmt.Errorf("python3 with redis-py is not installed")
}

// nodeCommand needs Node and the modules that npm install fetches in adopt/node.
func nodeCommand() ([]string, error) {
	if _, err := os.Stat("node/node_modules/redlock5"); err != nil {
		return nil, fmt.Errorf("npm install was not run in integration/adopt/node")
	}
	return []string{"node", "locks.js"}, exec.Command("node", "-e", "0").Run()
}

// phpCommand needs Debian's php-cli, php-redis, php-illuminate-cache and php-illuminate-redis.
func phpCommand() ([]string, error) {
	const test = `exit(class_exists("Redis") && stream_resolve_include_path("Illuminate/Redis/autoload.php") &&
		stream_resolve_include_path("Illuminate/Cache/autoload.php") ? 0 : 1);`
	if out, err := exec.Command("php", "-r", test).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("PHP with phpredis and illuminate/cache is not installed: %w %s", err, out)
	}
	return []string{"php", "locks.php"}, nil
}

// goCommand builds the Go program, which needs modules that the product does not need.
func goCommand() ([]string, error) {
	path := filepath.Join(scratch, "locks")
	if out, err := exec.Command("go", "-C", "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build in integration/adopt/go: %w\n%s", err, out)
	}
	return []string{path}, nil
}

// programs starts each language's program once for a test and its subtests.
type programs struct {
	t  *testing.T // that ends them
	mu sync.Mutex
	by map[*language]*program
}

func newPrograms(t *testing.T) *programs { return &programs{t: t, by: map[*language]*program{}} }

// connect adds a client of an installed library at an address. An empty password is none. For any
// goroutine.
func (p *programs) connect(l library, addr, password string) (*client, error) {
	program, err := p.of(l.language)
	if err != nil {
		return nil, err
	}
	return program.connect(l.name, addr, password)
}

func (p *programs) of(l *language) (*program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if started := p.by[l]; started != nil && !l.single {
		return started, nil
	}
	command, err := l.command()
	if err != nil {
		return nil, err
	}
	p.by[l], err = startProgram(p.t, l.folder, command[0], command[1:]...)
	return p.by[l], err
}

// each runs a parallel subtest for every library. It skips a library that is not installed.
func each(t *testing.T, test func(t *testing.T, l library)) {
	t.Helper()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			if _, err := l.language.command(); err != nil {
				t.Skip(err)
			}
			test(t, l)
		})
	}
}
