// Package clients tests that client libraries of several languages work with the proxy. It has
// only tests, of the built binary; see lab. Its folders have programs in other languages.
package clients

import (
	"fmt"
	"os"
	"testing"

	"lockproxy/integration/lab"
)

func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 3 && (args[0] == "count" || args[0] == "hold") {
		if err := survive(args[0], args[2], args[3:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("all ok")
		return
	}
	os.Exit(lab.Main(m))
}
