package embedded

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

const (
	databases = 16
	maxGrown  = 64 << 20 // bytes that one command may grow a string to without sending them
	maxCount  = 1 << 20  // elements that a command may ask for, whether there are so many or not
)

// preHook sees every command before miniredis does, also those of scripts. It refuses what
// overLimit refuses. It also refuses blocking commands in scripts, which could never wake up.
func (m *Redis) preHook(c *server.Peer, name string, args ...string) bool {
	refusal := overLimit(name, args)
	if _, direct := m.peers.Load(c); !direct && blocks[name] &&
		(!strings.HasPrefix(name, "X") || hasWord(args, "BLOCK")) {
		refusal = "ERR This Redis command is not allowed from script"
	}
	if refusal != "" {
		c.WriteError(refusal)
	}
	return refusal != ""
}

func hasWord(args []string, word string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { return strings.EqualFold(arg, word) })
}

// mayCount are the commands whose second argument counts members.
var mayCount = []string{"SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "SPOP"}

// overLimit returns an error for a command that would make miniredis take all memory or run for
// ever, without a way to recover. Redis refuses or bounds such a command. For all others overLimit
// returns "". name is in capitals, and is not in args.
func overLimit(name string, args []string) string {
	outside := func(i int, low, high int64) bool {
		if i >= len(args) {
			return false
		}
		n, err := strconv.ParseInt(args[i], 10, 64)
		return err == nil && (n < low || n > high)
	}
	switch {
	case name == "SETRANGE" && len(args) == 3 && outside(1, math.MinInt64, maxGrown-int64(len(args[2]))):
		return "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	case name == "SETBIT" && outside(1, 0, 8*maxGrown-1):
		return "ERR bit offset is not an integer or out of range"
	case slices.Contains(mayCount, name) && outside(1, -maxCount, maxCount):
		return "ERR value is out of range"
	}
	for i := range args {
		if isDB(name, args, i) && outside(i, 0, databases-1) {
			return "ERR DB index is out of range"
		}
		if name == "LPOS" && i > 2 && outside(i, -maxCount, maxCount) {
			return "ERR value is out of range"
		}
	}
	return ""
}

// isDB reports whether args[i] is the number of a database. A key may look like a number, too.
func isDB(name string, args []string, i int) bool {
	switch name {
	case "SELECT":
		return i == 0
	case "SWAPDB":
		return true
	case "MOVE":
		return i == 1
	case "COPY":
		return i > 2 && strings.EqualFold(args[i-1], "DB")
	}
	return false
}
