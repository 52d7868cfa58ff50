package quorum

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
)

// opKind is what a command on a lane is for. Those below numScripts run the script of that number.
type opKind uint8

const (
	opAcquire opKind = iota
	opRaise
	opRelease
	opTopUp
	opCheck
	opExtend
	opInfo
	opFree
	opLook
	opCounters
	opAdmit
	numScripts
	opPing
	opServer   // INFO
	opConfig   // CONFIG GET *append*
	opRemember // HSET
	opRecall   // HGET
)

//go:embed acquire.lua
var acquireLua string

//go:embed raise.lua
var raiseLua string

//go:embed release.lua
var releaseLua string

//go:embed topup.lua
var topupLua string

//go:embed check.lua
var checkLua string

//go:embed extend.lua
var extendLua string

//go:embed info.lua
var infoLua string

//go:embed free.lua
var freeLua string

//go:embed look.lua
var lookLua string

//go:embed counters.lua
var countersLua string

//go:embed admit.lua
var admitLua string

// script is one of the embedded scripts, ready to be sent.
type script struct {
	body string
	keys keys
	args int    // ARGV
	sha  string // *10, $7 EVALSHA, $40 ..., number of keys: all in front of the first key
	eval string // the same for EVAL with the body
}

// scripts stands in the order of the opKinds. It is built once and never changed.
var scripts = [numScripts]script{
	opAcquire:  newScript(acquireLua, lockAndState, 5),
	opRaise:    newScript(raiseLua, lockAndState, 4),
	opRelease:  newScript(releaseLua, lockAndState, 3),
	opTopUp:    newScript(topupLua, lockAndState, 6),
	opCheck:    newScript(checkLua, lockAndState, 2),
	opExtend:   newScript(extendLua, lockAndState, 3),
	opInfo:     newScript(infoLua, lockAndState, 1),
	opFree:     newScript(freeLua, lockOnly, 1),
	opLook:     newScript(lookLua, stateOnly, 0),
	opCounters: newScript(countersLua, stateOnly, 1),
	opAdmit:    newScript(admitLua, stateOnly, 8),
}

// keys says which KEYS a script takes, in this order: the lock, the hash of counters and record.
type keys uint8

const (
	lockOnly keys = iota
	lockAndState
	stateOnly
)

// votes reports whether a script may run only on a master that votes. Those that undo things, and those about the master itself,
// run on any that is connected.
func (op opKind) votes() bool {
	switch op {
	case opAcquire, opRaise, opTopUp, opCheck, opExtend, opInfo:
		return true
	}
	return false
}

func newScript(body string, keys keys, args int) script {
	number := 1
	if keys == lockAndState {
		number = 2
	}
	sum := sha1.Sum([]byte(body))
	b := appendArray(nil, 3+number+args)
	head := len(b)
	sha := appendInt(appendBulk(appendBulk(b, "EVALSHA"), hex.EncodeToString(sum[:])), uint64(number))
	eval := appendInt(appendBulk(appendBulk(b[:head:head], "EVAL"), body), uint64(number))
	return script{body: body, keys: keys, args: args, sha: string(sha), eval: string(eval)}
}
