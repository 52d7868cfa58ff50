package resp

import (
	"strings"
	"testing"
)

// script plays a connection: "> COMMAND args" is sent, "> " is an empty request, "< frame" is answered (\r\n is added), and reports what is
// known then.
func script(s *state, lines ...string) {
	for _, line := range lines {
		text := line[2:]
		if line[0] == '<' {
			if text[0] != '-' {
				text = strings.ReplaceAll(text, " ", "\r\n")
			}
			text += "\r\n"
			var sc replyScanner
			n, _ := sc.next([]byte(text))
			sc.record([]byte(text)[:n])
			if s.watching.Load() || sc.first == '-' {
				if s.frame(sc.first, sc.head[:sc.headLen], sc.lastInt) {
					s.told()
				}
			} else if sc.first != '>' {
				s.received.Add(1)
			}
			continue
		}
		words, _ := splitInline([]byte(text))
		if len(words) == 0 {
			s.empty()
			continue
		}
		k := classify(words[0])
		if k == plain && s.mode != replySkip {
			s.sent.Add(1)
			continue
		}
		s.note(k, words, len(words))
	}
}

func TestState(t *testing.T) {
	type known struct {
		regular, silent, inTx, authed, resp3, subscribed bool
	}
	regular := known{regular: true}
	for _, tt := range []struct {
		name  string
		lines []string
		want  known
	}{
		{"new", nil, regular},
		{"unanswered", []string{"> GET k"}, known{}},
		{"answered", []string{"> GET k", "< $-1"}, regular},
		{"push is no reply", []string{"> GET k", "< >1 +x"}, known{}},
		{"MULTI", []string{"> MULTI", "< +OK"}, known{inTx: true}},
		{"MULTI refused", []string{"> MULTI", "< -NOAUTH"}, regular},
		{"EXEC", []string{"> MULTI", "> GET k", "> EXEC", "< +OK", "< +QUEUED", "< *1 $-1"}, regular},
		{"EXEC aborted", []string{"> MULTI", "> EXEC", "< +OK", "< -EXECABORT"}, regular},
		{"EXEC wrong, as Redis 6 says it", []string{"> MULTI", "> EXEC x", "< +OK", "< -ERR"}, known{inTx: true}},
		{"DISCARD", []string{"> MULTI", "> DISCARD", "< +OK", "< +OK"}, regular},
		{"AUTH", []string{"> AUTH pw", "< +OK"}, known{regular: true, authed: true}},
		{"AUTH wrong", []string{"> AUTH pw", "< -WRONGPASS"}, regular},
		{"AUTH pending", []string{"> AUTH pw"}, known{}},
		{"AUTH wrong, then another +OK", []string{"> AUTH pw", "> SET k v", "< -WRONGPASS", "< +OK"}, regular},
		{"AUTH kept by a wrong one", []string{"> AUTH pw", "> AUTH no", "< +OK", "< -WRONGPASS"}, known{regular: true, authed: true}},
		{"AUTH in MULTI", []string{"> AUTH pw", "> MULTI", "> AUTH pw", "> EXEC", "< +OK", "< +OK", "< +QUEUED", "< *1 +OK"}, regular},
		{"AUTH in MULTI discarded", []string{"> AUTH pw", "> MULTI", "> AUTH pw", "> DISCARD", "< +OK", "< +OK", "< +QUEUED", "< +OK"}, known{regular: true, authed: true}},
		{"HELLO 3", []string{"> HELLO 3", "< %1 +a +b"}, known{regular: true, resp3: true}},
		{"HELLO 2", []string{"> HELLO 3", "> HELLO 2", "< %1 +a +b", "< *2 +a +b"}, regular},
		{"HELLO AUTH", []string{"> HELLO 3 AUTH u p", "< %1 +a +b"}, known{regular: true, resp3: true, authed: true}},
		{"HELLO SETNAME AUTH", []string{"> HELLO 2 SETNAME x AUTH u p", "< *2 +a +b"}, known{regular: true, authed: true}},
		{"HELLO AUTH refused", []string{"> HELLO 3 AUTH u p", "< -WRONGPASS"}, regular},
		{"HELLO without AUTH", []string{"> HELLO 3", "< -NOAUTH"}, regular},
		{"HELLO in MULTI", []string{"> MULTI", "> HELLO 3", "> EXEC", "< +OK", "< +QUEUED", "< *1 +x"}, regular},
		{"RESET", []string{"> HELLO 3 AUTH u p", "< %1 +a +b", "> MULTI", "< +OK", "> RESET", "< +RESET"}, regular},
		{"RESET pending", []string{"> AUTH pw", "< +OK", "> RESET"}, known{}},
		{"RESET refused", []string{"> AUTH pw", "< +OK", "> RESET", "< -ERR"}, known{regular: true, authed: true}},
		{"RESET, SUBSCRIBE in one go", []string{"> RESET", "> SUBSCRIBE a", "> PING", "< +RESET", "< *3 $9 subscribe $1 a :1"}, known{subscribed: true}},
		{"RESET, SUBSCRIBE, answered", []string{"> RESET", "> SUBSCRIBE a", "> MULTI", "< +RESET", "< *3 $9 subscribe $1 a :1", "< -ERR"}, known{subscribed: true}},
		{"RESET, REPLY OFF in one go", []string{"> RESET", "> CLIENT REPLY OFF", "< +RESET"}, known{silent: true}},
		{"REPLY OFF, RESET, SKIP in one go", []string{"> CLIENT REPLY OFF", "> RESET", "> CLIENT REPLY SKIP", "< +RESET"}, known{silent: true}},
		{"RESET, SKIP, MULTI in one go", []string{"> RESET", "> CLIENT REPLY SKIP", "> MULTI", "< +RESET"}, known{inTx: true}},
		{"RESET twice, SUBSCRIBE in one go", []string{"> RESET", "> RESET", "> SUBSCRIBE a", "< +RESET"}, known{}},
		{"REPLY SKIP, RESET", []string{"> AUTH pw", "< +OK", "> CLIENT REPLY SKIP", "> RESET"}, known{}},
		{"HELLO, REPLY SKIP, RESET in one go", []string{"> HELLO 3 AUTH u p", "> CLIENT REPLY SKIP", "> RESET", "> PING", "< %1 +a +b", "< -NOAUTH"}, known{}},
		{"REPLY SKIP refused, RESET", []string{"> AUTH pw", "< +OK", "> CLIENT REPLY SKIP", "> RESET", "< -NOPERM", "< +RESET"}, known{}},
		{"REPLY SKIP, RESET, RESET, MULTI in one go", []string{"> CLIENT REPLY SKIP", "> RESET", "> RESET", "> MULTI", "< +RESET", "< +OK"}, known{inTx: true}},
		{"MONITOR", []string{"> MONITOR", "< +OK", "< +1700000000.1", "> MULTI", "< +1700000000.2", "< +OK"}, known{inTx: true}},
		{"MONITOR hides no AUTH", []string{"> MONITOR", "> AUTH no", "< +OK", "< +1700000000.1", "< -WRONGPASS"}, known{}},
		{"MONITOR then RESET", []string{"> MONITOR", "< +OK", "< +1700000000.1", "> RESET", "< +RESET"}, known{}},
		{"subscribed", []string{"> SUBSCRIBE a b", "< *3 $9 subscribe $1 a :1", "< *3 $9 subscribe $1 b :2"}, known{subscribed: true}},
		{"unsubscribed", []string{"> SUBSCRIBE a", "< *3 $9 subscribe $1 a :1", "> UNSUBSCRIBE", "< *3 $11 unsubscribe $1 a :0"}, known{}},
		{"pattern left", []string{"> PSUBSCRIBE a", "> SUBSCRIBE b", "> UNSUBSCRIBE", "< *3 $10 psubscribe $1 a :1", "< *3 $9 subscribe $1 b :2", "< *3 $11 unsubscribe $1 b :1"}, known{subscribed: true}},
		{"shard", []string{"> SSUBSCRIBE a", "< *3 $10 ssubscribe $1 a :1", "> UNSUBSCRIBE", "< *3 $11 unsubscribe $-1 :0"}, known{subscribed: true}},
		{"messages are no replies", []string{"> SUBSCRIBE a", "< *3 $9 subscribe $1 a :1", "> UNSUBSCRIBE", "< *3 $7 message $1 a $1 x", "< *3 $11 unsubscribe $1 a :0", "> AUTH pw", "< +OK"}, known{}},
		{"SUBSCRIBE refused, then AUTH: not counted for certain", []string{"> SUBSCRIBE a", "< -NOAUTH", "> AUTH pw", "< +OK"}, known{}},
		{"SUBSCRIBE refused, AUTH in one go", []string{"> SUBSCRIBE a", "> AUTH pw", "< -NOAUTH", "< +OK"}, known{}},
		{"AUTH, SUBSCRIBE in one go", []string{"> AUTH pw", "> SUBSCRIBE a", "< +OK", "< *3 $9 subscribe $1 a :1"}, known{authed: true, subscribed: true}},
		{"AUTH, MONITOR in one go", []string{"> AUTH pw", "> MONITOR", "< +OK", "< +OK", "< +1700000000.1"}, known{authed: true}},
		{"AUTH, DEBUG in one go", []string{"> AUTH pw", "> DEBUG SLEEP 0", "< +OK", "< +OK"}, known{authed: true}},
		{"AUTH, REPLY OFF in one go", []string{"> AUTH pw", "> CLIENT REPLY OFF", "< +OK"}, known{authed: true, silent: true}},
		{"HELLO AUTH, REPLY SKIP in one go", []string{"> HELLO 3 AUTH u p", "> CLIENT REPLY SKIP", "> GET k", "< %1 +a +b"}, known{authed: true, resp3: true}},
		{"AUTH wrong, +OK, SUBSCRIBE in one go", []string{"> AUTH no", "> SET a 1", "> SUBSCRIBE a", "< -WRONGPASS", "< +OK", "< *3 $9 subscribe $1 a :1"}, known{subscribed: true}},
		{"a list like a message, AUTH wrong, SUBSCRIBE in one go", []string{"> LRANGE l", "> AUTH no", "> SET a 1", "> SUBSCRIBE a",
			"< *3 $7 message $1 a $1 x", "< -WRONGPASS", "< +OK"}, known{}},
		{"a status like MONITOR's, AUTH wrong, MONITOR in one go", []string{"> EVAL x", "> AUTH no", "> SET a 1", "> MONITOR", "< +1700000000.1", "< -WRONGPASS", "< +OK"}, known{}},
		{"AUTH behind what may be lost", []string{"> EVAL x", "> AUTH pw", "< -ERR Protocol error: x", "< +OK"}, known{}},
		{"SUBSCRIBE in RESP3", []string{"> HELLO 3", "< %1 +a +b", "> SUBSCRIBE a", "> AUTH pw", "< >3 +subscribe +a :1", "< +OK"}, known{resp3: true}},
		{"SUBSCRIBE in MULTI", []string{"> MULTI", "> SUBSCRIBE a", "> EXEC", "< +OK", "< +QUEUED", "< *1 *3 $9 subscribe $1 a :1"}, known{subscribed: true}},
		{"SUBSCRIBE and UNSUBSCRIBE in MULTI", []string{"> MULTI", "> SUBSCRIBE a", "> UNSUBSCRIBE a", "> EXEC", "< +OK", "< +QUEUED", "< +QUEUED",
			"< *2 *3 $9 subscribe $1 a :1 *3 $11 unsubscribe $1 a :0"}, known{}},
		{"UNSUBSCRIBE of one in MULTI", []string{"> SUBSCRIBE a b", "< *3 $9 subscribe $1 a :1", "< *3 $9 subscribe $1 b :2", "> MULTI", "> UNSUBSCRIBE a", "> EXEC", "< +OK", "< +QUEUED",
			"< *1 *3 $11 unsubscribe $1 a :1"}, known{subscribed: true}},
		{"UNSUBSCRIBE in MULTI, then a number", []string{"> MULTI", "> SUBSCRIBE a", "> INCR n", "> EXEC", "< +OK", "< +QUEUED", "< +QUEUED",
			"< *2 *3 $9 subscribe $1 a :1 :0"}, known{subscribed: true}},
		{"shards in MULTI", []string{"> MULTI", "> SUBSCRIBE a", "> SUNSUBSCRIBE", "> EXEC", "< +OK", "< +QUEUED", "< +QUEUED",
			"< *2 *3 $9 subscribe $1 a :1 *3 $12 sunsubscribe $-1 :0"}, known{subscribed: true}},
		{"SUBSCRIBE in MULTI, UNSUBSCRIBE behind it", []string{"> MULTI", "> SUBSCRIBE a", "> PING", "> EXEC", "< +OK", "< +QUEUED", "< +QUEUED",
			"< *2 *3 $9 subscribe $1 a :1 +x", "> UNSUBSCRIBE", "< *3 $11 unsubscribe $1 a :0"}, known{}},
		{"REPLY OFF", []string{"> CLIENT REPLY OFF"}, known{silent: true}},
		{"REPLY OFF refused", []string{"> CLIENT REPLY OFF", "< -NOPERM"}, known{}},
		{"REPLY OFF behind an error", []string{"> GET", "> CLIENT REPLY OFF", "< -ERR"}, known{silent: true}},
		{"REPLY ON", []string{"> CLIENT REPLY OFF", "> CLIENT REPLY ON", "< +OK"}, known{}},
		{"REPLY OFF, another user, ON", []string{"> CLIENT REPLY OFF", "> AUTH u p", "> CLIENT REPLY ON"}, known{silent: true}},
		{"REPLY OFF, another user, ON seen", []string{"> CLIENT REPLY OFF", "> AUTH u p", "> CLIENT REPLY ON", "< +OK"}, known{}},
		{"REPLY ON seen, then OFF, another user, a +OK of before", []string{"> CLIENT REPLY OFF", "> CLIENT REPLY ON", "< +OK", "> SET a 1", "> CLIENT REPLY OFF", "> AUTH u p", "< +OK"}, known{silent: true}},
		{"REPLY SKIP refused, then AUTH fails before a +OK", []string{"> CLIENT REPLY SKIP", "> GET x", "> SET a 1", "> GET a", "> AUTH admin no", "< -NOPERM", "< -NOPERM", "< +OK", "< +x", "< -WRONGPASS"}, known{}},
		{"REPLY OFF, ON pending", []string{"> CLIENT REPLY OFF", "> CLIENT REPLY ON"}, known{silent: true}},
		{"REPLY OFF, MULTI, ON", []string{"> CLIENT REPLY OFF", "> MULTI", "> CLIENT REPLY ON"}, known{silent: true, inTx: true}},
		{"REPLY SKIP", []string{"> CLIENT REPLY SKIP"}, known{silent: true}},
		{"REPLY OFF, as C reads it", []string{`> CLIENT REPLY "off\x00x"`}, known{silent: true}},
		{"REPLY SKIP, as C reads it", []string{`> CLIENT REPLY "SKIP\x00"`}, known{silent: true}},
		{"REPLY ON, as C reads it", []string{"> CLIENT REPLY OFF", `> CLIENT REPLY "on\x00"`, "< +OK"}, known{}},
		{"REPLY SKIP over", []string{"> CLIENT REPLY SKIP", "> GET k"}, known{}},
		{"REPLY SKIP, an empty request", []string{"> CLIENT REPLY SKIP", "> "}, known{}},
		{"REPLY SKIP, an empty request, MULTI", []string{"> CLIENT REPLY SKIP", "> ", "> MULTI", "< +OK", "> DISCARD", "< -ERR"}, known{inTx: true}},
		{"REPLY OFF, an empty request", []string{"> CLIENT REPLY OFF", "> "}, known{silent: true}},
		{"REPLY SKIP MULTI", []string{"> CLIENT REPLY SKIP", "> MULTI"}, known{inTx: true}},
		{"MULTI, REPLY OFF, EXEC", []string{"> MULTI", "< +OK", "> CLIENT REPLY OFF", "< +QUEUED", "> EXEC"}, known{silent: true, inTx: true}},
		{"MULTI, REPLY OFF, EXEC aborted", []string{"> MULTI", "< +OK", "> CLIENT REPLY OFF", "< +QUEUED", "> EXEC", "< -EXECABORT"}, known{}},
		{"EXEC and REPLY OFF at once", []string{"> MULTI", "< +OK", "> EXEC", "> CLIENT REPLY OFF", "< *0"}, known{silent: true}},
		{"DISCARD and REPLY OFF at once", []string{"> MULTI", "< +OK", "> DISCARD", "> CLIENT REPLY OFF", "< +OK"}, known{silent: true}},
		{"RESET and REPLY OFF at once", []string{"> MULTI", "< +OK", "> RESET", "> CLIENT REPLY OFF", "< +RESET"}, known{silent: true}},
		{"REPLY SKIP refused, MULTI, REPLY OFF", []string{"> CLIENT REPLY SKIP", "> MULTI", "< -NOAUTH", "< -NOAUTH", "> CLIENT REPLY OFF"}, known{silent: true, inTx: true}},
		{"MULTI and REPLY OFF at once", []string{"> MULTI", "> CLIENT REPLY OFF"}, known{silent: true}},
		{"MULTI and REPLY OFF and EXEC at once", []string{"> MULTI", "> CLIENT REPLY OFF", "> EXEC", "< +OK", "< +QUEUED", "> CLIENT REPLY ON", "< *1 +OK"}, known{silent: true}},
		{"protocol error", []string{"> GET k", "< -ERR Protocol error: x"}, known{}},
		{"protocol error of a script", []string{"> GET k", "< -ERR Protocol error: x", "> GET k", "< +x"}, known{}},
		{"DEBUG", []string{"> DEBUG SLEEP 0", "< +OK"}, known{}},
		{"CLIENT other", []string{"> CLIENT ID", "< :1"}, regular},
	} {
		var s state
		script(&s, tt.lines...)
		session := &Session{st: state{resp3: s.resp3, subs: s.subs}}
		got := known{s.regular(), s.silent(), s.inTx, s.authed, s.resp3, session.Subscribed()}
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestResync: behind a marker everything is answered, and what was not found is not believed.
func TestResync(t *testing.T) {
	var s state
	script(&s, "> SUBSCRIBE a", "> AUTH pw", "> MULTI", "> GET k")
	s.resync()
	script(&s, "> AUTH pw", "< +OK") // behind the marker the number is certain again
	if !s.authed {
		t.Error("AUTH behind a marker is not believed")
	}
	s.authed = false
	if s.authed || !s.inTx || s.sent.Load() != s.received.Load() || len(s.waiting) != 0 {
		t.Errorf("authed %v, inTx %v, %d sent, %d received, %d waiting", s.authed, s.inTx, s.sent.Load(), s.received.Load(), len(s.waiting))
	}
}
