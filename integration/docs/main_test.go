// Package docs runs the documents: with the built lockproxy binary and real Redis servers it
// plays the transcripts of the reference, the tutorial and the session of the README. It has only
// tests.
package docs

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
