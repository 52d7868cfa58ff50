package fake

import (
	"strconv"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// Op is one operation of a packet.
type Op struct {
	Name   string // "acquire", "raise", "release", "fade", "topup", "extend", "check", "inspect", "free"
	Letter byte
	Key    string
	More   []string // further keys
	Args   []string
}

// Secret is of the token that the operation names, empty without one.
func (o *Op) Secret() string {
	if len(o.Args) == 0 {
		return ""
	}
	return o.Args[0]
}

// operations are how the operations of a packet are named, by their letters. args counts their
// arguments; M and N have one more for each key.
var operations = map[byte]struct {
	name string
	args int
}{
	'A': {"acquire", 4}, 'W': {"acquire", 5}, 'S': {"acquire", 5}, 'L': {"acquire", 8}, 'M': {"acquire", 5},
	'R': {"raise", 3}, 'N': {"raise", 3}, 'T': {"topup", 6}, 'E': {"extend", 2}, 'H': {"share", 3}, 'C': {"check", 1},
	'P': {"release", 1}, 'D': {"release", 1}, 'Q': {"release", 1}, 'Z': {"release", 1}, 'K': {"release", 2},
	'F': {"fade", 2}, 'I': {"inspect", 0}, 'X': {"free", 0},
}

// ParseOps reads the operations of a packet: the arguments of EVAL or EVALSHA.
func ParseOps(args []string) (ops []Op) {
	keys, _ := strconv.Atoi(args[2])
	argv := args[3+keys:]
	locks := args[4 : 3+keys]
	ops = make([]Op, 0, len(locks))
	for i, letter := range "PDAW" {
		for range argv[1][i] - '0' {
			ops = append(ops, Op{Name: operations[byte(letter)].name, Letter: byte(letter), Key: locks[len(ops)]})
		}
	}
	rest := parseColumns(ops, argv[2:])
	locks = locks[len(ops):]
	for len(rest) > 0 {
		letter := rest[0][0]
		kind, ok := operations[letter]
		if !ok {
			panic("fake: unknown operation " + rest[0])
		}
		o := Op{Name: kind.name, Letter: letter, Key: locks[0]}
		n := 1 + kind.args
		if letter == 'M' || letter == 'N' {
			several, _ := strconv.Atoi(rest[3])
			n += several
			o.More = locks[1:several]
		}
		o.Args = rest[1:n]
		ops = append(ops, o)
		locks, rest = locks[1+len(o.More):], rest[n:]
	}
	if len(locks) > 0 {
		panic("fake: no operations for " + strings.Join(locks, ", "))
	}
	return ops
}

// parseColumns reads the arguments of releases and acquires, and returns those behind them.
func parseColumns(ops []Op, argv []string) (rest []string) {
	acquires := ops
	for len(acquires) > 0 && acquires[0].Name == "release" {
		acquires[0].Args, argv = argv[:1:1], argv[1:]
		acquires = acquires[1:]
	}
	n := len(acquires)
	waits := argv[3*n:]
	for i := range acquires {
		o, secret, owner := &acquires[i], argv[i][:wire.SecretLen], argv[i][wire.SecretLen:]
		o.Args = []string{secret, argv[2*n+i], argv[n+i], owner}
		if o.Letter == 'W' {
			o.Args, waits = append(o.Args, waits[0]), waits[1:]
		}
	}
	return waits
}
