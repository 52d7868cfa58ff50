package relay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockproxy/integration/lab"
)

// The direct run of a script, and the right answer to each lock command that follows from it.

// identityPart is the answer to the steps before upTo: bytes that are the same both ways, or the
// answer to a lock command.
type identityPart struct {
	upTo    int // number of the first step that is not part of it
	literal string
	lock    *identityTruth // nil: literal
}

// identityTruth is the upstream's view of the connection at a lock command.
type identityTruth struct {
	step    identityStep
	user    string   // "" if the user does not matter
	want    string   // the beginning of the right answer
	granted bool     // want is the answer to a user who may lock
	or      string   // another right beginning; "" for none
	hidden  []string // no lock in the answer may begin with one of these
}

// identityTwin runs a script without the proxy. An unknown command replaces each lock command,
// because it has the same effect on a transaction and on CLIENT REPLY SKIP; questions about the
// connection follow it.
type identityTwin struct {
	rig    *identityRig
	conn   *direct
	in     bool // logged in; always up to date
	parts  []identityPart
	silent int // lock commands without a reply, because replies are off or skipped
}

// askWho asks who is logged in. A transaction may queue it: the unknown command before has broken
// that transaction already.
var askWho = lab.Encode("ACL", "WHOAMI")

// play runs the script, followed by RESET and a HELLO that names end.
func (w *identityTwin) play(s identityScript, end string) error {
	w.in = !strings.HasPrefix(w.conn.say(askWho), "-NOAUTH")
	steps := append(slices.Clone(s.steps), identityStep{args: []string{"RESET"}, wait: true},
		identityStep{args: []string{"HELLO", "2", end}})
	var batch []identityStep
	flush := func(upTo int) {
		if len(batch) > 0 {
			text, _ := textOf(batch, nil)
			w.literal(upTo, w.conn.say(text))
			batch = nil
		}
	}
	for i, step := range steps {
		if step.wait || step.lock || !w.in || step.resets() {
			flush(i)
		}
		switch {
		case step.lock:
			if err := w.lock(i, step); err != nil {
				return err
			}
		case !w.in || step.resets():
			w.single(i, step)
		default:
			batch = append(batch, step)
		}
	}
	flush(len(steps))
	if w.conn.closed {
		return fmt.Errorf("the server closed the connection")
	}
	return nil
}

func (w *identityTwin) literal(upTo int, text string) {
	w.parts = append(w.parts, identityPart{upTo: upTo, literal: comparable(text)})
}

// single runs a step that may change whether the connection is logged in. After it the connection
// is in no transaction, has no subscriptions, and replies are on: so the question gets an answer
// and changes no state.
func (w *identityTwin) single(i int, step identityStep) {
	text, _ := textOf([]identityStep{step}, nil)
	reply, was := w.conn.say(text), w.in
	if step.is("AUTH") || step.is("HELLO") || step.is("RESET") {
		w.in = !strings.HasPrefix(w.conn.say(askWho), "-NOAUTH")
	} else if !was && w.rig.standIn && reply != "" {
		reply = noAuth // the stand-in checks authentication first
		if step.is("EXEC") {
			reply = "-EXECABORT Transaction discarded because of: NOAUTH Authentication required.\r\n"
		}
	}
	w.literal(i+1, reply)
}

// lock asks the upstream, and records the right answer to a lock command.
func (w *identityTwin) lock(i int, step identityStep) error {
	got := comparable(w.conn.say(lab.Encode("no-such-command") + askWho + lab.Encode("HELLO")))
	said := framesOf(got)
	var names []string
	switch {
	case len(said) == 0, len(said) == 2: // replies are off, or one is skipped
		w.silent++
		return nil
	case len(said) != 3:
		return fmt.Errorf("ask about the connection: got %q, want three replies", got)
	}
	name := strings.ToLower(step.args[0])
	truth := &identityTruth{step: step}
	switch who := said[1]; { // a missing right is reported before transactions and subscriptions
	case strings.HasPrefix(said[2], "+QUEUED"):
		truth.want = "-ERR " + strings.ToUpper(name) + " is not allowed in transactions\r\n"
	case strings.HasPrefix(said[2], "-ERR Can't execute"):
		truth.want, truth.or = "-ERR Can't execute '"+name+"'", "-NOPERM "
		if !w.rig.acl {
			truth.or = ""
		}
	case strings.HasPrefix(who, "-NOAUTH "):
		truth.want = "-NOAUTH "
	case strings.HasPrefix(who, "-NOPERM "):
		truth.user = nameless
	case strings.HasPrefix(who, "$"):
		truth.user = lab.Scalar(who)
	default:
		return fmt.Errorf("ask who is logged in: %q %q", who, names)
	}
	if truth.user != "" {
		truth.granted = !w.rig.acl || w.rig.permits(truth.user, step)
		if truth.want = "-NOPERM "; truth.granted {
			truth.want = grantOf(step, strings.HasPrefix(said[2], "%"))
		}
		if w.rig.acl && truth.user == nameless { // the proxy cannot know either, and may refuse
			truth.or = "-NOPERM "
		}
		if w.rig.acl && step.lists() {
			truth.hidden = w.rig.hiddenFrom(truth.user)
		}
	}
	w.parts = append(w.parts, identityPart{upTo: i + 1, lock: truth})
	return nil
}

// grantOf returns the beginning of the answer to a user with the right; the key is free.
func grantOf(step identityStep, resp3 bool) string {
	switch {
	case step.is("UNLOCK"), step.is("LOCKPROXY") && step.args[1] == "RELEASE":
		return ":0\r\n"
	case step.lists():
		return "*2\r\n$"
	case step.is("LOCKPROXY"):
		return "-ERR no such master"
	case step.is("LOCKINFO") && resp3:
		return lab.Null3
	case step.is("LOCKINFO"):
		return lab.Null2
	case slices.Contains(step.args, "FULL"):
		return "*3\r\n$57\r\n"
	}
	return "$57\r\n"
}

// monitored matches a line of MONITOR. Other connections use the server, too.
var monitored = regexp.MustCompile(`\+\d{10}\.\d{6} \[\d+ [^\]\r]*\] [^\r]*\r\n`)

// comparable removes the parts of an answer that differ between two connections.
func comparable(text string) string {
	if strings.Contains(text, "$2\r\nid\r\n:") {
		text = helloID.ReplaceAllString(text, "$1:0\r\n")
	}
	if strings.Contains(text, "] \"") {
		text = monitored.ReplaceAllString(text, "")
	}
	return text
}
