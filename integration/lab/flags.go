package lab

import (
	"slices"
	"strings"
)

// withFlags adds flags to others. It drops earlier flags of the same names, because the program
// refuses a repeated flag.
func withFlags(flags []string, more ...string) []string {
	var kept []string
	given := flagNames(more)
	for i := 0; i < len(flags); i++ {
		n := 1
		if !strings.Contains(flags[i], "=") && i+1 < len(flags) {
			n = 2
		}
		if !slices.Contains(given, nameOf(flags[i])) {
			kept = append(kept, flags[i:i+n]...)
		}
		i += n - 1
	}
	return append(kept, more...)
}

func flagNames(flags []string) (names []string) {
	for _, f := range flags {
		if strings.HasPrefix(f, "--") {
			names = append(names, nameOf(f))
		}
	}
	return names
}

func nameOf(flag string) string {
	name, _, _ := strings.Cut(flag, "=")
	return name
}
