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
	numScripts
	opPing
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

// script is one of the embedded scripts, ready to be sent.
type script struct {
	body string
	keys int    // 1: the lock; 2: the hash of counters as well
	args int    // ARGV
	sha  string // $7 EVALSHA, $40 ..., number of keys: all between the count of arguments and the first key
	eval string // the same for EVAL with the body
}

// scripts stands in the order of the opKinds. It is built once and never changed.
var scripts = [numScripts]script{
	opAcquire: newScript(acquireLua, 2, 4),
	opRaise:   newScript(raiseLua, 2, 3),
	opRelease: newScript(releaseLua, 1, 2),
	opTopUp:   newScript(topupLua, 2, 5),
	opCheck:   newScript(checkLua, 1, 1),
	opExtend:  newScript(extendLua, 1, 2),
	opInfo:    newScript(infoLua, 1, 0),
	opFree:    newScript(freeLua, 1, 1),
}

func newScript(body string, keys, args int) script {
	sum := sha1.Sum([]byte(body))
	b := appendArray(nil, 3+keys+args)
	head := len(b)
	sha := appendInt(appendBulk(appendBulk(b, "EVALSHA"), hex.EncodeToString(sum[:])), uint64(keys))
	eval := appendInt(appendBulk(appendBulk(b[:head:head], "EVAL"), body), uint64(keys))
	return script{body: body, keys: keys, args: args, sha: string(sha), eval: string(eval)}
}
