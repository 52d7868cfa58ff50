package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// leaves may be imported from everywhere. They import no package of the project.
//
// integration/redistest starts redis-servers for tests: see TestProductWithoutTestTools.
var leaves = []string{"goredis", "integration/redistest", "plain", "resp/respio", "stat"}

// mayImport says which folders there are and what each may import from the project, beside leaves.
var mayImport = map[string][]string{
	"cmd/lockproxy": {"admin", "cmd/lockproxy/embedded", "cmd/lockproxy/internal/listen", "cmd/lockproxy/internal/logs",
		"cmd/lockproxy/internal/telemetry", "cmd/lockproxy/internal/telemetry/collector", // the collector for tests
		"cmd/lockproxy/tool", "commands", "conf", "quorum", "resp", "upstream"},
	"commands": {"commands/internal/adopt", "commands/internal/queue", "commands/internal/session", "quorum", "resp"},
	"conf":     {},
	"resp":     {"resp/internal/netpoll", "resp/internal/protocol", "resp/internal/scan"},
	"quorum": {"quorum/internal/admission", "quorum/internal/clock", "quorum/internal/dice", "quorum/internal/fake",
		"quorum/internal/master", "quorum/internal/notify", "quorum/internal/wire"},
	"upstream": {},
	"admin":    {"docs"},

	"goredis": {},
	"plain":   {},
	"stat":    {},

	// Rooms.
	"cmd/lockproxy/embedded":        {"resp"},
	"cmd/lockproxy/tool":            {"conf"},
	"cmd/lockproxy/internal/listen": {"conf"},
	"cmd/lockproxy/internal/logs":   {},

	"cmd/lockproxy/internal/telemetry":           {"cmd/lockproxy/internal/telemetry/collector"},
	"cmd/lockproxy/internal/telemetry/collector": {},

	"commands/internal/adopt":   {}, // pure
	"commands/internal/queue":   {"quorum"},
	"commands/internal/session": {"quorum", "resp"},

	"resp/internal/netpoll":  {},
	"resp/internal/protocol": {"resp/internal/scan"},
	"resp/internal/scan":     {},

	"resp/respio": {}, // the protocol for clients; the relay reads with scan

	"quorum/internal/admission": {"quorum/internal/wire"},
	"quorum/internal/clock":     {},
	"quorum/internal/dice":      {},
	"quorum/internal/fake":      {"quorum/internal/wire"}, // masters in memory, for tests
	"quorum/internal/master": {"quorum/internal/admission", "quorum/internal/clock", "quorum/internal/dice",
		"quorum/internal/fake", "quorum/internal/wire"},
	"quorum/internal/model":        {}, // models that tests search
	"quorum/internal/model/values": {},
	"quorum/internal/notify":       {"quorum/internal/master"},
	"quorum/internal/sim": {"quorum", "quorum/internal/clock", "quorum/internal/dice", "quorum/internal/fake",
		"quorum/internal/wire"}, // tests
	"quorum/internal/wire": {},

	// The text of documents.
	"docs": {},

	// No code. deploy/check is a module of its own, because the parsers of these formats need
	// hundreds of modules.
	"deploy": {},

	// Tests of the built binary by subject, and their tools. bench, compare, browser and adopt/go are
	// modules of their own, because they need packages that the program does not.
	"integration/adopt":      {"integration/lab"},
	"integration/attacks":    {"integration/lab"},
	"integration/clients":    {"integration/clients/withlock", "integration/lab"},
	"integration/faults":     {"integration/history", "integration/lab"},
	"integration/load":       {"integration/lab"},
	"integration/locks":      {"integration/history", "integration/lab"},
	"integration/operations": {"integration/lab"},
	"integration/relay":      {"integration/lab"},
	"integration/sessions":   {"integration/lab"},

	"integration/clients/withlock": {}, // shown in docs/recipes.md

	"integration/redistest": {},

	"integration/lab":     {},
	"integration/history": {},
	"integration/docs":    {"integration/lab"}, // runs the examples of the documents
}

func TestFoldersImportWhatTheyMay(t *testing.T) {
	const module = "lockproxy/"
	command := exec.Command("go", "list", "-e", "-f",
		`{{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, "./...")
	command.Dir = "../.."
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if len(lines) < 6 {
		t.Fatalf("go list found only %q", lines)
	}
	for _, line := range lines {
		words := strings.Fields(line)
		folder := strings.TrimPrefix(words[0], module)
		allowed, known := mayImport[folder]
		if !known {
			t.Errorf("folder %s is not in the table", folder)
			continue
		}
		for _, path := range words[1:] {
			imported, ours := strings.CutPrefix(path, module)
			if ours && imported != folder && !slices.Contains(allowed, imported) &&
				!(slices.Contains(leaves, imported) && !slices.Contains(leaves, folder)) {
				t.Errorf("%s imports %s", folder, imported)
			}
			if strings.HasPrefix(path, "go.opentelemetry.io/") &&
				!strings.HasPrefix(folder, "cmd/lockproxy/internal/telemetry") {
				t.Errorf("%s imports %s: only the room telemetry may", folder, path)
			}
		}
	}
}

// TestProductWithoutTestTools: what only tests import is not in the program.
func TestProductWithoutTestTools(t *testing.T) {
	output, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for path := range strings.FieldsSeq(string(output)) {
		if strings.HasPrefix(path, "lockproxy/integration/") || path == "testing" {
			t.Errorf("the program contains %s", path)
		}
	}
}

// TestNoOtherFolders leaves out names that start with a dot or an underscore: go ignores them, and
// tests write their findings to _artifacts.
func TestNoOtherFolders(t *testing.T) {
	entries, err := os.ReadDir("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if _, known := mayImport[entry.Name()]; entry.IsDir() && !known && entry.Name() != "cmd" &&
			entry.Name() != "integration" && !strings.ContainsRune("._", rune(entry.Name()[0])) {
			t.Errorf("folder %s is not in the table", entry.Name())
		}
	}
}
