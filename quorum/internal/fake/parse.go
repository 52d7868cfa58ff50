package fake

import (
	"cmp"
	"strconv"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// Op is one operation of a packet.
type Op struct {
	// "acquire", "raise", "release", "fade", "topup", "extend", "share", "check", "inspect", "free",
	// "refresh"
	Name  string
	Waits bool // of an acquire in a column: its client waits
	Key   string
	More  []string // further keys
	Args  []string
}

// Secret is of the token that the operation names, empty without one.
func (o *Op) Secret() string {
	if len(o.Args) == 0 {
		return ""
	}
	return o.Args[0]
}

// names are what tests call the operations that packets name otherwise.
var names = map[string]string{
	"acquire_shared": "acquire", "acquire_slot": "acquire", "acquire_keys": "acquire", "raise_keys": "raise",
	"top_up": "topup", "tell": "release", "leave": "release", "keep": "release",
}

// ParseOps reads the operations of a packet: the arguments of EVAL or EVALSHA.
func ParseOps(args []string) (ops []Op) {
	keys, _ := strconv.Atoi(args[2])
	argv := args[3+keys:]
	locks := args[4 : 3+keys]
	ops = make([]Op, 0, len(locks))
	for i, name := range []string{"release", "release", "acquire", "acquire"} {
		for range argv[1][i] - '0' {
			ops = append(ops, Op{Name: name, Waits: i == 3, Key: locks[len(ops)]})
		}
	}
	counters, _ := strconv.Atoi(argv[1][4:])
	rest := parseColumns(ops, argv[4:], counters)
	locks = locks[len(ops):]
	for len(rest) > 0 {
		name := rest[0]
		n, _ := strconv.Atoi(rest[1])
		o := Op{Name: cmp.Or(names[name], name), Key: locks[0], Args: rest[2 : 2+n]}
		switch name {
		case "acquire_keys":
			o.More = locks[1 : n-4]
		case "raise_keys":
			o.More = locks[1 : n-2]
		}
		ops = append(ops, o)
		locks, rest = locks[1+len(o.More):], rest[2+n:]
	}
	if len(locks) > 0 {
		panic("fake: no operations for " + strings.Join(locks, ", "))
	}
	return ops
}

// parseColumns reads the arguments of releases and acquires, and returns those of the other
// operations. counters is the number of them among the columns.
func parseColumns(ops []Op, argv []string, counters int) (rest []string) {
	acquires := ops
	for len(acquires) > 0 && acquires[0].Name == "release" {
		acquires[0].Args, argv = argv[:1:1], argv[1:]
		acquires = acquires[1:]
	}
	n := len(acquires)
	waits := argv[3*n+counters:]
	for i := range acquires {
		o, secret, owner := &acquires[i], argv[i][:wire.SecretLen], argv[i][wire.SecretLen:]
		o.Args = []string{secret, argv[2*n+counters+i], argv[n+i], owner}
		if o.Waits {
			o.Args, waits = append(o.Args, waits[0]), waits[1:]
		}
	}
	return waits
}
