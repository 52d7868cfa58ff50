package wire

import (
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"strings"

	"lockproxy/resp/respio"
)

// Script is one of the embedded scripts.
type Script struct {
	Body string
	SHA  string // hex digits of the SHA-1 of Body

	evalSHA, eval string // the first two words of a call
}

//go:embed packet.lua
var packetLua string

//go:embed others.lua
var othersLua string

//go:embed probe.lua
var probeLua string

//go:embed learn.lua
var learnLua string

//go:embed admit.lua
var admitLua string

//go:embed known.lua
var knownLua string

// All scripts. They never change.
var (
	Packet = newScript(packetBody())        // lock operations; Encoder writes its calls
	Probe  = newScript(probeLua)            // KEYS: state. No ARGV. ParseProbe reads its reply
	Learn  = newScript(knownLua + learnLua) // KEYS: state. ARGV: known, record, whether to count
	Admit  = newScript(knownLua + admitLua) // KEYS: state. ARGV: see admit.lua
)

// packetBody is the script of packets, with the code of the other operations.
func packetBody() string {
	return strings.Replace(packetLua, "-- others.lua comes here.\n", othersLua, 1)
}

func newScript(body string) Script {
	sum := sha1.Sum([]byte(body))
	sha := hex.EncodeToString(sum[:])
	return Script{
		Body:    body,
		SHA:     sha,
		evalSHA: string(respio.AppendBulk(respio.AppendBulk(nil, "EVALSHA"), sha)),
		eval:    string(respio.AppendBulk(respio.AppendBulk(nil, "EVAL"), body)),
	}
}

// Eval is a call of a script about the state hash. Such calls are rare, so they bring the body.
func (s *Script) Eval(state string, args ...string) []byte {
	return AppendCommand(nil, append([]string{"EVAL", s.Body, "1", state}, args...)...)
}

// appendHead writes all arguments before the first key.
func (s *Script) appendHead(b []byte, body bool, keys, args int) []byte {
	b = respio.AppendHeader(b, '*', 3+keys+args)
	if body {
		b = append(b, s.eval...)
	} else {
		b = append(b, s.evalSHA...)
	}
	return respio.AppendDigits(b, uint64(keys))
}
