package commands

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/redcon"

	"lockproxy/resp"
)

// aloneVersion is the version of Redis that the lock listener claims to be without the upstream.
// HELLO 3, CLIENT SETINFO and all commands that lock are older.
const aloneVersion = "7.2.0"

// Alone is for resp.Options.Alone of the lock listener: it answers what clients ask at the start
// of a connection, because locks do not need the upstream.
func (s *Service) Alone(conn redcon.Conn, cmd redcon.Command) (answered bool) {
	session := resp.SessionOf(conn)
	if required, err := s.opts.Gate.AuthRequired(session.Context()); required || err != nil {
		return false
	}
	var r reply
	switch argv := cmd.Args; wordsOf(argv) {
	case "ping":
		r.writeStatus("PONG")
	case "ping *", "echo *":
		r.writeBulk(string(argv[1]))
	case "select *":
		if n, err := strconv.ParseUint(string(argv[1]), 10, 31); err != nil || n > maxDB {
			r.writeError("ERR DB index is out of range")
		} else {
			r.writeStatus("OK")
		}
	case "hello", "hello *", "hello * setname *":
		r.writeHello(argv, session.RESP3())
	case "client setname *", "client setinfo * *":
		r.writeStatus("OK")
	case "info", "info *":
		r.writeBulk(aloneInfo)
	case "script load *":
		s.adopter.table.Learn(argv[2])
		sum := sha1.Sum(argv[2])
		r.writeBulk(hex.EncodeToString(sum[:]))
	default:
		return false
	}
	conn.WriteRaw(r)
	return true
}

// aloneWords are the words of commands that Alone answers.
var aloneWords = []string{"ping", "echo", "select", "hello", "client", "info", "script", "setname", "setinfo", "load"}

// wordsOf returns a request in lower case, with a * for each argument that is a value.
func wordsOf(argv [][]byte) string {
	if len(argv) > 4 {
		return ""
	}
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = "*"
		named := i == 0 || i == 1 && isWord(argv[0], "client") || i == 1 && isWord(argv[0], "script") ||
			i == 2 && isWord(argv[0], "hello")
		if word := strings.ToLower(string(arg)); named && slices.Contains(aloneWords, word) {
			words[i] = word
		}
	}
	return strings.Join(words, " ")
}

// maxDB is the largest number that SELECT takes without the upstream. An upstream may have fewer
// databases, but no lock is in one.
const maxDB = 1 << 20

const aloneInfo = "# Server\r\nredis_version:" + aloneVersion + "\r\nredis_mode:standalone\r\n" +
	"\r\n# Persistence\r\nloading:0\r\n"

// writeHello answers HELLO [version [SETNAME name]].
//
//	> *2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n
//	< %7\r\n$6\r\nserver\r\n$5\r\nredis\r\n...
func (r *reply) writeHello(argv [][]byte, resp3 bool) {
	if len(argv) > 1 {
		version := string(argv[1])
		if resp3 = version == "3"; !resp3 && version != "2" {
			r.writeError("NOPROTO unsupported protocol version")
			return
		}
	}
	const fields = 7
	if resp3 {
		*r = fmt.Appendf(*r, "%%%d\r\n", fields)
	} else {
		r.writeArray(2 * fields)
	}
	r.writeText("server", "redis")
	r.writeText("version", aloneVersion)
	r.writeNumber("proto", map[bool]int64{false: 2, true: 3}[resp3])
	r.writeNumber("id", 1)
	r.writeText("mode", "standalone")
	r.writeText("role", "master")
	r.writeBulk("modules")
	r.writeArray(0)
}

// isWord reports whether b is word, in any case.
func isWord(b []byte, word string) bool {
	return len(b) == len(word) && strings.EqualFold(string(b), word) // letters outside ASCII have other lengths
}
