package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutation is a bug put in on purpose. The simulation, or the test it names, must find it.
type mutation struct {
	name   string
	finds  string // a regular expression for the text of a fault that shows it
	test   string // finds it; empty: TestSimulation
	room   string // whose test that is; empty: package quorum
	family string // of runs that it is looked for in; empty: all as they come
	edits  []edit
}

// What mutations break.
const (
	exclusion  = "holds the lock|has lost its lock|was extended after"
	order      = "given out after|was extended after|holds the lock"
	leftovers  = "is left on master"
	blamed     = "has lost its lock"
	blocked    = "nothing is granted"
	costly     = "the load on master"
	overloaded = "under load|after the load"
)

// edit is a change of one file. The file has old exactly once, or times if that is set.
type edit struct {
	file, old, new string
	times          int
}

// Files of the rooms.
const (
	luaPacket  = "internal/wire/packet.lua"
	luaOthers  = "internal/wire/others.lua"
	wireBatch  = "internal/wire/batch.go"
	laneAnswer = "internal/master/answer.go"
	laneShake  = "internal/master/handshake.go"
	laneRepair = "internal/master/repairs.go"
	laneEnds   = "internal/master/release.go"
)

// mutations are rules of the quorum, each broken.
var mutations = slices.Concat(roundMutations, checkMutations, kindMutations, holderMutations, laneMutations,
	guardMutations, loadMutations, adoptedMutations)

// product is the folder of package quorum, from here. Paths of edits and rooms begin there.
const product = "../.."

// Every mutation still fits the code.
func TestMutationsApply(t *testing.T) {
	for _, mu := range mutations {
		t.Run(mu.name, func(t *testing.T) {
			files, err := mu.apply()
			if err != nil || len(files) == 0 {
				t.Errorf("%d files changed, %v", len(files), err)
			}
			for _, e := range mu.edits {
				if e.old == e.new {
					t.Errorf("an edit does not change %s", e.file)
				}
			}
		})
	}
}

// The simulation finds every mutation. mutations.sh runs it: each takes a build of its own.
// QUORUM_MUTATIONS is all, or part of the names of some; QUORUM_TIMES is the number of runs of
// each.
func TestMutationsAreFound(t *testing.T) {
	which := os.Getenv("QUORUM_MUTATIONS")
	if which == "" {
		t.Skip("QUORUM_MUTATIONS is not set")
	}
	times, _ := number64("QUORUM_TIMES")
	for _, mu := range mutations {
		if which != "all" && !strings.Contains(mu.name, which) {
			continue
		}
		t.Run(mu.name, func(t *testing.T) {
			binary := mu.build(t)
			var took []time.Duration
			var by string
			for range max(times, 1) {
				d, fault := mu.findIn(t, binary)
				if by = fault; fault == "" {
					t.Fatalf("not found in %v", d.Round(time.Second))
				}
				took = append(took, d)
			}
			slices.Sort(took)
			most := took[len(took)-1]
			t.Logf("%v of %d, at most %v: %s", took[len(took)/2].Round(time.Millisecond), len(took),
				most.Round(time.Millisecond), by)
		})
	}
}

// TestMutantBuild keeps the build of one mutation, QUORUM_BUILD, for a closer look: as
// QUORUM_BINARY.
func TestMutantBuild(t *testing.T) {
	which, to := os.Getenv("QUORUM_BUILD"), os.Getenv("QUORUM_BINARY")
	if which == "" || to == "" {
		t.Skip("QUORUM_BUILD and QUORUM_BINARY are not set")
	}
	for _, mu := range mutations {
		if mu.name == which {
			if err := os.Rename(mu.build(t), to); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Errorf("no mutation is called %q", which)
}

// apply returns the files of mu as they are with the bug in them.
func (mu *mutation) apply() (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range mu.edits {
		text, ok := files[e.file]
		if !ok {
			b, err := os.ReadFile(filepath.Join(product, e.file))
			if err != nil {
				return nil, err
			}
			text = string(b)
		}
		if n, want := strings.Count(text, e.old), max(e.times, 1); n != want {
			return nil, fmt.Errorf("%s has %d times, want %d:\n%s", e.file, n, want, e.old)
		}
		files[e.file] = strings.ReplaceAll(text, e.old, e.new)
	}
	return files, nil
}

// tests is the folder of the tests that find the mutation, from product.
func (mu *mutation) tests() string {
	if mu.test == "" {
		return "./internal/sim"
	}
	return cmp.Or(mu.room, ".")
}

// build compiles the tests with the bug in the product, and touches no file of it.
func (mu *mutation) build(t *testing.T) string {
	t.Helper()
	files, err := mu.apply()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for name, text := range files {
		file := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		overlay.Replace[mustAbs(t, filepath.Join(product, name))] = file
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutated.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", filepath.Join(dir, "overlay.json"), "-o",
		binary, mu.tests())
	cmd.Dir = product
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func mustAbs(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var faultLine = regexp.MustCompile(`QUORUM_SEED=\d+:? (.*)`)

// findIn runs the simulation, for a minute of processor time at most, or the test that is named.
// It returns how much of it that took and the fault it found; empty if it passed.
func (mu *mutation) findIn(t *testing.T, binary string) (took time.Duration, fault string) {
	t.Helper()
	test := cmp.Or(mu.test, "TestSimulation")
	cmd := exec.CommandContext(t.Context(), binary, "-test.run", "^("+test+")$", "-test.timeout", "30m")
	cmd.Dir = filepath.Join(product, mu.tests())
	cmd.Env = append(os.Environ(), "QUORUM_FOR=60", "QUORUM_WANT="+mu.finds, "ADMISSION_SEEDS=20000")
	if mu.family != "" {
		cmd.Env = append(cmd.Env, "QUORUM_FAMILY="+mu.family)
	}
	out, err := cmd.CombinedOutput()
	took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err == nil {
		return took, ""
	}
	line := faultLine.FindSubmatch(out)
	if mu.test != "" {
		line = regexp.MustCompile("_test.go:\\d+: (.*" + mu.finds + ".*)").FindSubmatch(out)
	}
	if line == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return took, string(line[1])
}
