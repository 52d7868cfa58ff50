package master

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDocsLimits: docs/reference/limits.md names the limits of a lane.
func TestDocsLimits(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, limit := range map[string]int{"releases and top-ups under way to one master": maxUnanswered,
		"commands that one master has not answered": maxHolders, "releases and top-ups kept for one master": maxRepairs} {
		if want := fmt.Sprintf("\n* Limit: %d,%03d %s", limit/1000, limit%1000, what); !strings.Contains(string(text),
			want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
