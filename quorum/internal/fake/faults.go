package fake

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// faults are the commands that a master refuses, delays or answers otherwise.
type faults struct {
	// Denied makes commands that write fail with this error, until the script that calls them has
	// written something. An OOM refuses only commands that take memory. Empty: all work.
	Denied string
	// Lacks lists the commands that the user may not run: "hset", "pubsub|numsub".
	Lacks map[string]bool
	// Hook is asked before a command runs, without the lock of the master. It returns how long the
	// master takes, and a reply instead of running the command, "" to run it.
	Hook func(c *Command) (delay time.Duration, instead string)
	// Fault is asked before every command that a script calls. It returns the error with which the
	// command fails, "" to run it. Called with the lock of the master held.
	Fault func(c Call) string
	// Forbids says which keys the ACL keeps from the user: a script that names one is refused.
	// nil: none. Called with the lock of the master held.
	Forbids func(key string) bool
}

// lacks returns the name of a command to which the user has no right, empty for others.
func (f *faults) lacks(args []string) string {
	if len(f.Lacks) == 0 {
		return ""
	}
	name := strings.ToLower(args[0])
	if len(args) > 1 && f.Lacks[name+"|"+strings.ToLower(args[1])] {
		return name + "|" + strings.ToLower(args[1])
	} else if f.Lacks[name] {
		return name
	}
	return ""
}

// forbids reports whether the user may not use one of the keys that a call of a script
// names.
func (f *faults) forbids(args []string) bool {
	if f.Forbids == nil {
		return false
	}
	keys, _ := strconv.Atoi(args[2])
	return slices.ContainsFunc(args[3:3+keys], f.Forbids)
}

// denies returns the error of a command that writes, empty if it may. Redis asks only until
// a script has written.
func (f *faults) denies(c *command) string {
	if !c.grows && strings.HasPrefix(f.Denied, "OOM") {
		return ""
	}
	return f.Denied
}
