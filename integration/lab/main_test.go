package lab_test

import (
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) { os.Exit(lab.Main(m)) }
