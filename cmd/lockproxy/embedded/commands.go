package embedded

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// extra are commands that miniredis lacks, or answers in another way than clients need. Each
// writes its reply to the session's peer and returns true, or returns false to leave the command
// to miniredis. args come without the name.
var extra = map[string]func(s *session, args []string) bool{
	"ACL":     (*session).acl,
	"CLIENT":  (*session).client,
	"COMMAND": (*session).command,
	"CONFIG":  (*session).config,
	"HELLO":   (*session).hello,
	"INFO":    (*session).info,
	"RESET":   (*session).reset,
	"ROLE":    (*session).role,
}

// outsideMulti refuses the command and returns false between MULTI and EXEC: miniredis cannot
// queue these commands.
func (s *session) outsideMulti(name string) bool {
	if s.multi {
		s.refuse("ERR '" + name + "' inside MULTI is not supported by the embedded server")
	}
	return !s.multi
}

func wrongNumber(name string) string {
	return "ERR wrong number of arguments for '" + name + "' command"
}

// subcommand returns the first argument in capitals, or "".
func subcommand(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return strings.ToUpper(args[0])
}

func (s *session) acl(args []string) bool {
	switch {
	case subcommand(args) != "WHOAMI" || len(args) != 1:
		s.refuse("ERR the embedded server knows no users: only ACL WHOAMI is there")
	case s.multi:
		s.queue("ACL", args)
	default:
		s.peer.WriteBulk("default")
	}
	return true
}

// client answers CLIENT ID, SETINFO, NO-EVICT, NO-TOUCH, INFO and KILL.
func (s *session) client(args []string) bool {
	sub := subcommand(args)
	arity := map[string]int{"ID": 1, "SETINFO": 3, "NO-EVICT": 2, "NO-TOUCH": 2, "INFO": 1}
	want, fixed := arity[sub]
	switch {
	case !fixed && sub != "KILL":
		return false
	case fixed && len(args) != want:
		s.refuse(wrongNumber("client|" + strings.ToLower(sub)))
	case !s.outsideMulti("client"):
	case sub == "ID":
		s.peer.WriteInt(int(s.id))
	case sub == "INFO":
		s.peer.WriteBulk(fmt.Sprintf("id=%d addr=memory name=%s db=0 user=default\n", s.id, s.peer.ClientName))
	case sub == "KILL":
		s.kill(args[1:])
	default:
		s.peer.WriteOK()
	}
	return true
}

// kill answers CLIENT KILL with the number of connections it ended. When it has answered, no
// command of the other connection runs any more.
//
//	> CLIENT KILL ID id [SKIPME yes|no]
func (s *session) kill(args []string) {
	var id int64
	skipMe := true
	var err error
	for ; len(args) >= 2 && err == nil; args = args[2:] {
		switch option, value := strings.ToUpper(args[0]), strings.ToLower(args[1]); {
		case option == "ID":
			id, err = strconv.ParseInt(value, 10, 64)
		case option == "SKIPME" && (value == "yes" || value == "no"):
			skipMe = value == "yes"
		default:
			id = -1
		}
	}
	if err != nil || id <= 0 || len(args) > 0 {
		s.peer.WriteError("ERR the embedded server knows CLIENT KILL ID id [SKIPME yes|no] only")
		return
	}
	victim := s.server.find(id)
	switch {
	case victim == nil, victim == s && skipMe:
		s.peer.WriteInt(0)
	case victim == s:
		s.peer.WriteInt(1)
		s.peer.Close()
	default:
		victim.conn.Close()
		select {
		case <-victim.done:
		case <-time.After(time.Second): // the other connection may be killing this one
		}
		s.peer.WriteInt(1)
	}
}

// command answers COMMAND with a subcommand, which redis-cli sends for its hints.
func (s *session) command(args []string) bool {
	sub := subcommand(args)
	switch {
	case sub == "":
		return false
	case !s.outsideMulti("command"):
	case sub == "DOCS":
		s.peer.WriteMapLen(0)
	case sub == "INFO":
		s.peer.WriteLen(len(args) - 1)
		for range args[1:] {
			s.peer.WriteNull()
		}
	default:
		s.peer.WriteError("ERR unknown subcommand of COMMAND in the embedded server")
	}
	return true
}

// configValues are the values of CONFIG GET: the server neither evicts nor saves.
var configValues = [][2]string{
	{"maxmemory", "0"}, {"maxmemory-policy", "noeviction"}, {"appendonly", "no"}, {"appendfsync", "everysec"},
	{"no-appendfsync-on-rewrite", "no"}, {"save", ""}, {"databases", strconv.Itoa(databases)}, {"timeout", "0"},
}

func (s *session) config(args []string) bool {
	switch {
	case subcommand(args) != "GET":
		s.refuse("ERR the embedded server has no settings to change: only CONFIG GET is there")
	case len(args) < 2:
		s.refuse(wrongNumber("config|get"))
	case s.outsideMulti("config"):
		var found [][2]string
		for _, entry := range configValues {
			for _, pattern := range args[1:] {
				if ok, _ := path.Match(strings.ToLower(pattern), entry[0]); ok {
					found = append(found, entry)
					break
				}
			}
		}
		s.peer.Block(func(w *server.Writer) {
			w.WriteMapLen(len(found))
			for _, entry := range found {
				w.WriteBulk(entry[0])
				w.WriteBulk(entry[1])
			}
		})
	}
	return true
}

// hello keeps the protocol version if none is given, and carries out SETNAME.
func (s *session) hello(args []string) bool {
	if s.multi {
		s.queue("HELLO", args)
		return true
	}
	if len(args) == 0 {
		version := "2"
		if s.peer.Resp3 {
			version = "3"
		}
		s.server.srv.Dispatch(s.peer, []string{"HELLO", version})
		return true
	}
	for i := 1; i+1 < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "AUTH":
			i += 2
		case "SETNAME":
			s.peer.ClientName = args[i+1]
			i++
		}
	}
	return false
}

// reset answers RESET.
func (s *session) reset(args []string) bool {
	if len(args) != 0 {
		s.refuse(wrongNumber("reset"))
		return true
	}
	s.forget()
	s.multi, s.queued = false, nil
	s.newPeer()
	s.peer.WriteInline("RESET")
	return true
}

func (s *session) role([]string) bool {
	if s.outsideMulti("role") {
		s.peer.Block(func(w *server.Writer) {
			w.WriteLen(3)
			w.WriteBulk("master")
			w.WriteInt(0)
			w.WriteLen(0)
		})
	}
	return true
}
