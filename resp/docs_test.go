package resp

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocsLimits: docs/reference/limits.md names the limits of this package.
func TestDocsLimits(t *testing.T) {
	text, err := os.ReadFile("../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	requests, err := os.ReadFile("internal/scan/requests.go")
	if err != nil {
		t.Fatal(err)
	}
	inline, err := os.ReadFile("internal/scan/numbers.go")
	if err != nil {
		t.Fatal(err)
	}
	number := func(source []byte, name string) string {
		found := regexp.MustCompile(name + ` +=? *([0-9]+)`).FindSubmatch(source)
		if found == nil {
			t.Fatalf("no %s", name)
		}
		return string(found[1])
	}
	bytes := number(requests, "limitedArgBytes")
	for _, want := range []string{
		fmt.Sprintf("%s arguments of %s,%s bytes", number(requests, "limitedArgs"), bytes[:2], bytes[2:]),
		fmt.Sprintf("An inline command has %s KB at most", number(inline, "maxInline")),
		fmt.Sprintf("if less than %d KB of it came", slowBytes>>10),
		fmt.Sprintf("%d MB, then lockproxy disconnects it. All clients together: %d MB", aheadMost>>20, aheadShared>>20),
		fmt.Sprintf("not within %d ms", dialPause.Milliseconds()),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
