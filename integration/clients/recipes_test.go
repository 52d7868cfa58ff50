package clients

import (
	"net"
	"os/exec"
	"testing"

	"lockproxy/integration/lab"
)

// The recipes of docs/recipes.md and docs/coming-from work, in the languages that are installed.
// The folders called recipes have the code that the pages show; the programs next to them run it.

func TestPythonRecipesWork(t *testing.T) {
	t.Parallel()
	runRecipe(t, redisPy(t), "python/recipes.py")
}

// The recipe for LOCK ... LIMIT.
func TestLimitRecipesWork(t *testing.T) {
	t.Parallel()
	runRecipe(t, redisPy(t), "python/limits.py")
}

// The recipes for LOCKINFO ... SINCE, with real servers and with embedded ones.
func TestElectionRecipesWork(t *testing.T) {
	t.Parallel()
	python := redisPy(t)
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		runRecipe(t, python, "python/elections.py")
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		p := lab.StartProxy(t, "--embedded", "--admin-commands", "on")
		p.WaitVoting(t)
		host, port, _ := net.SplitHostPort(p.Addr)
		runProgram(t, python, "python/elections.py", host, port)
	})
}

func TestNodeRecipesWork(t *testing.T) {
	t.Parallel()
	runRecipe(t, node(t), "node/recipes.js")
}

func TestRubyRecipesWork(t *testing.T) {
	t.Parallel()
	runRecipe(t, ifRuns(t, "ruby", "-e", "require 'redis'"), "ruby/recipes.rb")
}

func TestPHPRecipesWork(t *testing.T) {
	t.Parallel()
	runRecipe(t, ifRuns(t, "php", "-r", "exit(class_exists('Redis') ? 0 : 1);"), "php/recipes.php")
}

// Java needs a JDK and no library, because the recipe takes any client.
func TestJavaRecipesWork(t *testing.T) {
	t.Parallel()
	ifRuns(t, "javac", "-version")
	runRecipe(t, "java", "-cp", javaClasses(t), "Recipes")
}

// javaClasses compiles the recipe and its test, and returns the folder of the classes.
func javaClasses(t *testing.T) string {
	t.Helper()
	classes := t.TempDir()
	out, err := exec.Command("javac", "-d", classes, "java/Recipes.java", "java/recipes/HeldLock.java").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return classes
}

// A lock library for one Redis and LOCK exclude each other if that Redis is the upstream and the
// only master.
func TestLibraryForOneRedisExcludesLock(t *testing.T) {
	t.Parallel()
	python := redisPy(t)
	one := lab.StartRedis(t)
	p := lab.StartProxy(t, "--upstream", one.Addr, "--masters", one.Addr)
	p.WaitVoting(t)
	host, port, _ := net.SplitHostPort(p.Addr)
	runProgram(t, python, "python/moving.py", host, port)
}

// runRecipe runs a program against a proxy with admin-commands, with which it takes locks away.
func runRecipe(t *testing.T, program string, args ...string) {
	t.Helper()
	c := lab.StartCluster(t, 3, "--admin-commands", "on")
	host, port, _ := net.SplitHostPort(c.Addr)
	runProgram(t, program, append(args, host, port)...)
	lab.WantNoStray(t, c.Masters, c.Proxy)
}

// The statements of fence.sql hold in PostgreSQL, also for two concurrent transactions.
// python/recipes.py runs them with SQLite.
func TestFenceSQLRefusesEarlierHolder(t *testing.T) {
	t.Parallel()
	db := startPostgres(t)
	create, claim := fenceSQL(t)
	db.query(t, create)
	for _, c := range []struct {
		name, fence string
		passes      bool
	}{
		{"job", "7", true}, {"job", "7", true}, {"job", "9", true}, {"job", "8", false}, {"job", "9", true},
		{"other", "8", true},
		{"job", "9007199254740992", true}, {"job", "9007199254740991", false},
	} {
		if got := db.query(t, claim(c.name, c.fence)); (got == c.fence) != c.passes || !c.passes && got != "" {
			t.Errorf("fence %s of %s: got %q, want a row: %v", c.fence, c.name, got, c.passes)
		}
	}

	// While the later holder's transaction is open the earlier one's waits, and is then refused.
	later := db.open(t)
	if got := later.query(t, "BEGIN; "+claim("race", "2")); got != "2" {
		t.Fatalf("later holder: got %q", got)
	}
	earlier := make(chan string, 1)
	go func() { earlier <- db.run(claim("race", "1")) }()
	lab.WaitFor(t, "the earlier holder's transaction waiting", lab.Patience, func() bool {
		return db.run("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'") == "1"
	})
	later.query(t, "COMMIT;")
	if got := <-earlier; got != "" {
		t.Errorf("earlier holder: got %q, want no row", got)
	}
}
