package embedded

import (
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

const (
	databases = 16
	maxGrown  = 64 << 20 // bytes that one command may grow a string to without sending them
	maxCount  = 1 << 20  // elements that a count may ask for beyond those that exist
)

// preHook is miniredis' pre-hook. It sees every command, those that scripts call included. It refuses what overLimit
// refuses, and in scripts what would wait: there is nobody who could wake it.
func (m *Server) preHook(c *server.Peer, name string, args ...string) bool {
	refusal := overLimit(name, args)
	if _, direct := m.peers.Load(c); !direct && blocks[name] && (!strings.HasPrefix(name, "X") || hasWord(args, "BLOCK")) {
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

// overLimit returns the error for a command that Redis refuses or bounds, but with which miniredis would take all
// memory or never end, neither of which can be recovered from. Or "". name is in capitals, args come without it.
func overLimit(name string, args []string) string {
	arg := func(i int) (int64, bool) {
		if i >= len(args) {
			return 0, false
		}
		n, err := strconv.ParseInt(args[i], 10, 64)
		return n, err == nil
	}
	switch name {
	case "SETRANGE":
		if offset, ok := arg(1); ok && len(args) == 3 && (offset > maxGrown || offset+int64(len(args[2])) > maxGrown) {
			return "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
		}
	case "SETBIT":
		if offset, ok := arg(1); ok && (offset < 0 || offset >= 8*maxGrown) {
			return "ERR bit offset is not an integer or out of range"
		}
	case "SRANDMEMBER", "HRANDFIELD", "ZRANDMEMBER", "SPOP":
		if count, ok := arg(1); ok && (count < -maxCount || count > maxCount) {
			return "ERR value is out of range"
		}
	case "SELECT":
		if db, ok := arg(0); ok && (db < 0 || db >= databases) {
			return "ERR DB index is out of range"
		}
	case "SWAPDB", "MOVE", "COPY":
		for i := range args {
			// COPY's and MOVE's first arguments are keys, and a key may look like a number.
			if db, ok := arg(i); ok && isDB(name, args, i) && (db < 0 || db >= databases) {
				return "ERR DB index is out of range"
			}
		}
	case "LPOS":
		return overCount(args)
	}
	return ""
}

func isDB(name string, args []string, i int) bool {
	switch name {
	case "SWAPDB":
		return true
	case "MOVE":
		return i == 1
	}
	return i > 2 && strings.EqualFold(args[i-1], "DB")
}

// overCount bounds LPOS ... COUNT n, for which miniredis makes room beforehand.
func overCount(args []string) string {
	for i := 2; i+1 < len(args); i++ {
		if n, err := strconv.ParseInt(args[i+1], 10, 64); err == nil && (n > maxCount || n < -maxCount) {
			return "ERR value is out of range"
		}
	}
	return ""
}
