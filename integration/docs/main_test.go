// Package docs does what the documents say, word for word, with the built lockproxy binary and
// real Redis servers: the transcripts of the reference, the tutorial, the session of the README.
// It holds tests only.
package docs

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
