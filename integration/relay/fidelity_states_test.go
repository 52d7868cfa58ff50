package relay

import (
	"slices"
	"strings"

	"lockproxy/integration/lab"
)

// The connection states in which every group of commands is tried.

// connectionState is a state, with the commands that lead to it.
type connectionState struct {
	name     string
	password bool                       // needs a server with a password
	open     bool                       // needs a server without a password
	enter    func(resp3 bool) []entered // after HELLO and AUTH
	noResp3  bool                       // cannot be reached with RESP3
	noAuth   bool                       // no HELLO, no AUTH
	silent   bool                       // replies are off: the reaction of Redis to a protocol error depends on time
	skips    bool                       // every command follows CLIENT REPLY SKIP
	// PING tags the replies that are compared in part: an unknown command would end the state
	pings bool
	lock  string // beginning of the reply to a correct LOCK; "" for a token
}

// entered is a command that leads to a state, with the beginning of its reply.
type entered struct {
	args  []string
	reply string
}

var connectionStates = []connectionState{
	{name: "fresh", open: true},
	{name: "unauthenticated", password: true, noResp3: true, noAuth: true, lock: "-NOAUTH "},
	{name: "authenticated", password: true},
	{name: "multi", pings: true, enter: always([]string{"MULTI"}, "+OK\r\n"),
		lock: "-ERR LOCK is not allowed in transactions\r\n"},
	{name: "subscribed", enter: enterSubscribed, lock: subscribedError("lock")},
	{name: "monitor", enter: always([]string{"MONITOR"}, "+OK\r\n")},
	{name: "tracking", enter: always([]string{"CLIENT", "TRACKING", "ON"}, "+OK\r\n")},
	{name: "reply off", silent: true, enter: always([]string{"CLIENT", "REPLY", "OFF"}, "")},
	{name: "reply skip", silent: true, skips: true},
}

func always(args []string, reply string) func(bool) []entered {
	return func(bool) []entered { return []entered{{args, reply}} }
}

func enterSubscribed(resp3 bool) []entered {
	head := "*3\r\n"
	if resp3 {
		head = ">3\r\n"
	}
	return []entered{{[]string{"SUBSCRIBE", "a"}, head + lab.Bulk("subscribe") + lab.Bulk("a") + ":1\r\n"},
		{[]string{"PSUBSCRIBE", "a*"}, head + lab.Bulk("psubscribe") + lab.Bulk("a*") + ":2\r\n"},
		{[]string{"SSUBSCRIBE", "s"}, head + lab.Bulk("ssubscribe") + lab.Bulk("s") + ":1\r\n"}}
}

// prelude returns the commands that put a connection into the state.
func (s connectionState) prelude(resp3 bool, password string) (list []entered) {
	switch {
	case resp3 && password != "":
		list = append(list, entered{[]string{"HELLO", "3", "AUTH", "default", password}, "%7\r\n"})
	case resp3:
		list = append(list, entered{[]string{"HELLO", "3"}, "%7\r\n"})
	case password != "" && !s.noAuth:
		list = append(list, entered{[]string{"AUTH", password}, "+OK\r\n"})
	}
	if s.enter != nil {
		list = append(list, s.enter(resp3)...)
	}
	return list
}

// leavers are the commands that may change the state of a connection.
var leavers = []string{"auth", "hello", "reset", "quit", "multi", "exec", "discard", "subscribe", "psubscribe",
	"ssubscribe",
	"unsubscribe", "punsubscribe", "sunsubscribe", "monitor", "sync", "psync"}

func leaves(args []string) bool {
	name := strings.ToLower(args[0])
	return slices.Contains(leavers, name) || name == "client" && len(args) > 1 &&
		slices.Contains([]string{"reply", "tracking"}, strings.ToLower(args[1]))
}
