package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockproxy/resp/internal/scan"
)

// The answers of an upstream to the requests of a query, on an ordinary connection.
const (
	openAnswer  = "-ERR unknown command '{open}', with args beginning with: \r\n"
	endAnswer   = "-ERR unknown command '{end}', with args beginning with: \r\n"
	skipAnswer  = "-ERR unknown command '{skip}', with args beginning with: \r\n"
	optionError = "-ERR Syntax error in HELLO option '{hello}'\r\n"

	helloMap  = "%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n8.0.0\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
	noAuth    = "-NOAUTH Authentication required.\r\n"
	noHello   = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used\r\n"
	noExecute = "-ERR Can't execute 'hello': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
	noWhoami  = "-ERR Can't execute 'acl|whoami': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context\r\n"
	message   = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
	pmessage  = "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$2\r\nhi\r\n"
	push      = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n"
	alice     = "$5\r\nalice\r\n"
	queued    = "+QUEUED\r\n"

	own   = "+1700000000.123456 [0 10.0.0.1:5000] "
	other = "+1700000000.123456 [0 10.0.0.2:5000] "
)

var helloArray = "*14\r\n" + strings.TrimPrefix(helloMap, "%7\r\n")

// Kinds of queries.
var (
	full, named = asks{standing: true}, asks{standing: true, user: true}
	skip        = asks{standing: true, user: true, skip: true}
	old         = asks{standing: true, user: true, withoutHello: true}
)

// queryCase is a transcript of an upstream's bytes. The part between « and » must be removed, and
// the rest reach the client. {ask} asks a query, {giveUp} ends the wait for its answer; the other
// braces are names of markers.
type queryCase struct {
	name          string
	asks          asks
	text          string
	hello, whoami string   // the answers that are handed over
	passed        bool     // the request after CLIENT REPLY SKIP was answered
	met           []uint64 // the questions that are answered
}

var queryCases = []queryCase{
	{"how far it has got", asks{}, "+OK\r\n:1\r\n{ask}$1\r\na\r\n«" + endAnswer + "»+OK\r\n", "", "", false,
		[]uint64{1}},
	{"how far, ended by a reply that is an array", asks{}, "{ask}*2\r\n:1\r\n*1\r\n$-1\r\n«" + endAnswer + "»", "", "",
		false, []uint64{1}},
	{"RESP2", named, "{ask}+OK\r\n-ERR x\r\n*0\r\n«" + openAnswer + helloArray + alice + optionError + endAnswer +
		"»:1\r\n", helloArray, alice, false, []uint64{1}},
	{"RESP2 without a user", full, "{ask}«" + openAnswer + helloArray + optionError + endAnswer +
		"»+OK\r\n*1\r\n:1\r\n", helloArray, "", false, []uint64{1}},
	{"RESP3", named, "{ask}|1\r\n+ttl\r\n:1\r\n" + alice + push + "«" + openAnswer + "»" + push + "«" + helloMap + "»" +
		push + "«" + alice + "»" + push + "«" + optionError + "»" + push +
		"«" + endAnswer + "»" + push + "|1\r\n+ttl\r\n:1\r\n+OK\r\n", helloMap, alice, false, []uint64{1}},
	{"a right that lacks", named, "{ask}«" + openAnswer + helloArray +
		"-NOPERM User bob has no permissions to run the 'acl|whoami' command\r\n" + optionError + endAnswer + "»",
		helloArray, "-NOPERM User bob has no permissions to run the 'acl|whoami' command\r\n", false, []uint64{1}},
	{"in MULTI", named, "{ask}+OK\r\n" + queued + "«" + openAnswer + queued + queued + queued + endAnswer + "»" +
		queued, queued, queued, false, []uint64{1}},
	{"subscribed", named, "{ask}" + message + "«" + openAnswer + "»" + message + "«" + noExecute + "»" + pmessage +
		message + "«" + noWhoami + "»" + pmessage + "«" + noExecute + "»" + message +
		"«" + endAnswer + "»" + pmessage, noExecute, noWhoami, false, []uint64{1}},
	{"subscribed before Redis 6.2", old, "{ask}«" + openAnswer + "»" + message + "«*2\r\n$4\r\npong\r\n$0\r\n\r\n" +
		noWhoami + noExecute + endAnswer + "»", "*2\r\n$4\r\npong\r\n$0\r\n\r\n", noWhoami, false, []uint64{1}},
	{"MONITOR", named, "{ask}" + other + "\"HELLO\"\r\n«" + openAnswer + "»" + other + "\"HELLO\"\r\n" + "«" + own +
		"\"HELLO\"\r\n" + helloArray + "»" + other + "\"ACL\" \"WHOAMI\"\r\n" +
		"«" + own + "\"ACL\" \"WHOAMI\"\r\n" + alice + own + "\"HELLO\" \"2\" \"{hello}\"\r\n" + optionError + "»" +
		other + "\"PING\"\r\n+1700000000.1 [0 lua] \"PING\"\r\n" +
		other + "\"SET\" \"k\" \"[0 10.0.0.1:5000] \\\"HELLO\\\"\"\r\n" + "«" + endAnswer + "»", helloArray, alice, false,
		[]uint64{1}},
	{"MONITOR before Redis 6.2", old, "{ask}«" + openAnswer + own + "\"PING\"\r\n+PONG\r\n" + alice + optionError +
		"»" + other + "\"PING\"\r\n" + "«" + endAnswer + "»", "+PONG\r\n", alice, false, []uint64{1}},
	{"MONITOR, a long line", named, "{ask}«" + openAnswer + "»" + other + "\"SET\" \"" +
		strings.Repeat("v", maxAnswer) + "\"\r\n«" + helloArray + alice + optionError + endAnswer + "»", helloArray, alice,
		false, []uint64{1}},
	{"BUSY", named, "{ask}«" + openAnswer +
		"-BUSY Redis is busy running a script.\r\n-BUSY Redis is busy running a script.\r\n" + optionError + endAnswer +
		"»",
		"-BUSY Redis is busy running a script.\r\n", "-BUSY Redis is busy running a script.\r\n", false, []uint64{1}},
	{"LOADING", named, "{ask}-LOADING Redis is loading\r\n«" + openAnswer + helloArray +
		"-LOADING Redis is loading\r\n-LOADING Redis is loading\r\n" + endAnswer + "»-LOADING Redis is loading\r\n",
		helloArray, "-LOADING Redis is loading\r\n", false, []uint64{1}},
	{"not logged in, names looked up first", named, "{ask}" + noAuth + "«" + openAnswer + noHello + noAuth +
		optionError + endAnswer + "»" + noAuth, noHello, noAuth, false, []uint64{1}},
	{"not logged in, the login looked at first", named,
		"{ask}«" + noAuth + noAuth + noAuth + optionError + noAuth + "»+OK\r\n", "", "", true, []uint64{1}},
	{"the login first, behind replies of the client", named,
		"{ask}" + strings.Repeat(noAuth, 5) + "«" + noAuth + noHello + noAuth + optionError + noAuth + "»" + noAuth +
			"+OK\r\n", "", "", true, []uint64{1}},
	{"the login first, without a user", full, "{ask}" + noAuth + "-ERR x\r\n" + noAuth + "«" + noAuth + noHello +
		optionError + noAuth + "»" + noAuth, "", "", true, []uint64{1}},
	{"the login first, SKIP refused", skip, "{ask}" + noAuth + noAuth + "«" + noAuth + noAuth + noHello + noAuth +
		optionError + noAuth + "»", "", "", true, []uint64{1}},
	{"as many refusals, but none of the question", full,
		"{ask}" + strings.Repeat(noAuth, 3) + "+OK\r\n" + noAuth + "+OK\r\n«" + openAnswer + helloArray + optionError +
			endAnswer + "»", helloArray, "", false, []uint64{1}},
	{"before Redis 6", named, "{ask}«" + openAnswer +
		"-ERR unknown command `HELLO`, with args beginning with: \r\n-ERR unknown command `ACL`, with args beginning with: `WHOAMI`, \r\n" +
		"-ERR unknown command `HELLO`, with args beginning with: `2`, `{hello}`, \r\n" + endAnswer + "»",
		"-ERR unknown command `HELLO`, with args beginning with: \r\n",
		"-ERR unknown command `ACL`, with args beginning with: `WHOAMI`, \r\n", false, []uint64{1}},
	{"before Redis 6.2, asked again", old, "{ask}«" + openAnswer + "+PONG\r\n" + alice + optionError + endAnswer +
		"»+PONG\r\n", "+PONG\r\n", alice, false, []uint64{1}},
	{"SKIP, used up before", skip, "{ask}«" + skipAnswer + openAnswer + helloArray + alice + optionError + endAnswer +
		"»", helloArray, alice, true, []uint64{1}},
	{"SKIP, for the marker", skip, "{ask}«" + openAnswer + helloArray + alice + optionError + endAnswer + "»",
		helloArray, alice, false, []uint64{1}},
	{"SKIP without a full question", asks{skip: true}, "{ask}«" + skipAnswer + endAnswer + "»{ask}«" + endAnswer + "»",
		"", "", false, []uint64{1, 2}},
	{"SKIP twice", skip, "{ask}«" + skipAnswer + openAnswer + helloArray + alice + optionError + endAnswer +
		"»+OK\r\n{ask}«" + openAnswer + helloMap + alice + optionError + endAnswer + "»", helloMap, alice, false,
		[]uint64{1, 2}},
	{"SKIP as an element of EXEC, which counts it", skip,
		"{ask}+OK\r\n" + queued + "*1\r\n«" + openAnswer + helloArray + alice + optionError + endAnswer +
			"»+OK\r\n*1\r\n:1\r\n", helloArray, alice, false, []uint64{1}},
	{"SKIP among elements of EXEC", skip, "{ask}*5\r\n:1\r\n*2\r\n:1\r\n:2\r\n$3\r\nabc\r\n+OK\r\n«" + skipAnswer +
		openAnswer + helloArray + alice + optionError + endAnswer + "»+OK\r\n", helloArray, alice, true, []uint64{1}},
	{"EXEC that is short, only how far", asks{}, "{ask}*2\r\n$3\r\nabc\r\n«" + endAnswer + "»:1\r\n", "", "", false,
		[]uint64{1}},
	{"EXEC that is short, with nothing behind", skip,
		"{ask}*2\r\n$3\r\nabc\r\n«" + skipAnswer + openAnswer + helloArray + alice + optionError + endAnswer + "»",
		helloArray, alice, true, []uint64{1}},
	{"logged in, and not any more", full, "{ask}«" + openAnswer + helloArray + optionError + endAnswer +
		"»+RESET\r\n{ask}«" + noAuth + noHello + optionError + noAuth + "»", "", "", true, []uint64{1, 2}},

	{"given up, answered late", named, "{ask}+OK\r\n{giveUp}:1\r\n«" + openAnswer + helloArray + alice + optionError +
		endAnswer + "»+OK\r\n", helloArray, alice, false, []uint64{1}},
	{"given up, answered before the next", named, "{ask}{giveUp}{ask}+OK\r\n«" +
		older(openAnswer+helloMap+"$3\r\nbob\r\n"+optionError+endAnswer) + "»:1\r\n«" + openAnswer + helloArray + alice +
		optionError + endAnswer + "»+OK\r\n",
		helloArray, alice, false, []uint64{2}},
	{"given up while it is being answered", named, "{ask}«" + openAnswer + helloMap + "»{giveUp}«$3\r\nbob\r\n»{ask}«" +
		older(optionError+endAnswer) + "»:1\r\n«" + openAnswer + helloArray + alice + optionError + endAnswer + "»",
		helloArray, alice, false, []uint64{2}},
	{"given up, the next asks for less", asks{}, "{ask}{giveUp}{ask}«" + older(endAnswer) + "»:1\r\n«" + endAnswer +
		"»", "", "", false, []uint64{2}},
	{"given up, its SKIP is not the next's", skip, "{ask}{giveUp}{ask}«" +
		older(skipAnswer+openAnswer+helloMap+alice+optionError+endAnswer) + "»«" + openAnswer + helloArray + alice +
		optionError + endAnswer + "»",
		helloArray, alice, false, []uint64{2}},
	{"given up, its SKIP is not that of the next, which asks for less", asks{skip: true},
		"{ask}{giveUp}{ask}«" + older(skipAnswer+endAnswer) + endAnswer + "»", "", "", false, []uint64{2}},
	{"given up, the login first: nothing is held back", full, "{ask}{giveUp}" + noAuth + noHello + "+OK\r\n", "", "",
		false, nil},
	{"given up, the login first, then asked again", full,
		"{ask}{giveUp}{ask}" + noAuth + noHello + "«" + older(optionError) + "»" + noAuth + "«" + noAuth + noHello +
			optionError + noAuth + "»", "", "", true, []uint64{2}},

	{"another secret", named,
		"{ask}-ERR unknown command '{wrong end}', with args\r\n-ERR unknown command '{wrong open}', with args\r\n+OK\r\n" +
			"-ERR Syntax error in HELLO option '{wrong hello}'\r\n«" + endAnswer + "»", "", "", false, []uint64{1}},
	{"an older number", asks{}, "{ask}«" + endAnswer + "»+OK\r\n{ask}«" + older(endAnswer) + "»+OK\r\n«" + endAnswer +
		"»", "", "", false, []uint64{1, 2}},
	{"a number that is none", asks{}, "{ask}-ERR '{garbled end}'\r\n«" + endAnswer + "»", "", "", false, []uint64{1}},
	{"HELLO's secret as the name of a command, and the other way round", named,
		"{ask}-ERR unknown command '{monitored end}'\r\n-ERR unknown command '{monitored open}'\r\n" +
			"-ERR Syntax error in HELLO option '{other hello}'\r\n" + "«" + endAnswer + "»", "", "", false, []uint64{1}},
	{"half a name", asks{}, "{ask}-ERR '{half}\r\n«" + endAnswer + "»", "", "", false, []uint64{1}},
	{"a name in what is no error", asks{},
		"{ask}+{end}\r\n$40\r\n{end}\r\n>1\r\n+{end}\r\n*1\r\n$60\r\n-ERR unknown command '{end}'\r\n", "", "", false, nil},
	{"messages that look like answers", named, "{ask}" +
		fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(helloArray), helloArray) + "«" + openAnswer +
		"»" +
		fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(helloArray), helloArray) + "«" + noExecute +
		noWhoami + noExecute + "»" +
		fmt.Sprintf("*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(alice), alice) + "«" + endAnswer +
		"»", noExecute, noWhoami, false, []uint64{1}},
	{"a push that looks like HELLO's answer", full, "{ask}«" + openAnswer + "»>" + helloArray[1:] + "«" + helloMap +
		optionError + endAnswer + "»", helloMap, "", false, []uint64{1}},
	{"an answer of HELLO to the client", full, "{ask}" + helloArray + helloMap + "«" + openAnswer + helloArray +
		optionError + endAnswer + "»" + helloArray, helloArray, "", false, []uint64{1}},
	{"an error that is longer than any answer", asks{},
		"{ask}-ERR " + strings.Repeat("x", maxAnswer) + "\r\n«" + endAnswer + "»", "", "", false, []uint64{1}},
}

// TestQueryIsAnsweredInAnyPieces gives the transcripts to a copier in one piece, in small ones,
// and cut in two at many places.
func TestQueryIsAnsweredInAnyPieces(t *testing.T) {
	for _, tt := range queryCases {
		t.Run(tt.name, func(t *testing.T) {
			size := tt.play(t, "in one piece", func(left int) int { return left })
			for n := 1; n < 8; n++ {
				tt.play(t, fmt.Sprintf("in pieces of %d", n), func(int) int { return n })
			}
			for at := 1; at < size; at += 3 {
				rest := at
				tt.play(t, fmt.Sprintf("cut at %d", at), func(left int) int {
					n := left
					if rest > 0 {
						n = min(rest, left)
					}
					rest -= n
					return n
				})
			}
		})
	}
}

// play gives the transcript to a copier, in pieces whose sizes next returns, and compares. It
// returns how many bytes the upstream sends.
func (tt *queryCase) play(t *testing.T, how string, next func(left int) int) (size int) {
	t.Helper()
	h := newHearing()
	h.play(tt.asks, tt.text, next)
	hello, whoami := string(h.conn.queries.head[0]), string(h.conn.queries.head[1])
	switch {
	case string(h.client) != h.want:
		t.Fatalf("%s: the client got\n%q, want\n%q", how, h.client, h.want)
	case !slices.Equal(h.met, tt.met):
		t.Fatalf("%s: answered are %d, want %d", how, h.met, tt.met)
	case hello != tt.hello || whoami != tt.whoami:
		t.Fatalf("%s: answers %q and %q,\nwant %q and %q", how, hello, whoami, tt.hello, tt.whoami)
	case h.conn.queries.passed != tt.passed:
		t.Fatalf("%s: the request behind SKIP answered: %v, want %v", how, !tt.passed, tt.passed)
	case h.reader.frames.Inside() || h.reader.answers.stage != closed || !h.between:
		t.Fatalf("%s: inside a frame %v, stage of the answers %d", how, h.reader.frames.Inside(), h.reader.answers.stage)
	case len(tt.met) > 0 && h.conn.Received() != h.conn.Sent()+h.after:
		t.Fatalf("%s: %d replies counted behind the answers, want %d", how, h.conn.Received()-h.conn.Sent(), h.after)
	}
	return h.size
}

// TestLateAnswerIsNotTaken: the copier never waits for the pump, which may have given up any
// number of times.
func TestLateAnswerIsNotTaken(t *testing.T) {
	h := newHearing()
	h.deaf = true
	h.play(asks{}, strings.Repeat("{ask}{giveUp}+OK\r\n«"+endAnswer+"»", 3), func(left int) int { return left })
	if met := <-h.conn.queries.answered; met != 3 || string(h.client) != h.want {
		t.Errorf("answered is %d, the client got %q; want 3 and %q", met, h.client, h.want)
	}
}

// TestQueryRequests is a table of queries and their requests.
func TestQueryRequests(t *testing.T) {
	const open, end, skip = "*1\r\n$40\r\n{open}\r\n", "*1\r\n$40\r\n{end}\r\n", "*1\r\n$40\r\n{skip}\r\n"
	const hello, ping, option = "*1\r\n$5\r\nHELLO\r\n", "*1\r\n$4\r\nPING\r\n",
		"*3\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$40\r\n{hello}\r\n"
	h := newHearing()
	for _, tt := range []struct {
		asks asks
		want string
	}{
		{asks{}, end},
		{asks{user: true}, end},
		{asks{skip: true}, skip + end},
		{asks{standing: true}, open + hello + option + end},
		{asks{standing: true, withoutHello: true}, open + ping + option + end},
		{asks{standing: true, user: true, skip: true}, skip + open + hello + "*2\r\n$3\r\nACL\r\n$6\r\nWHOAMI\r\n" +
			option + end},
	} {
		t.Run(fmt.Sprintf("%+v", tt.asks), func(t *testing.T) {
			got := string(h.conn.queries.ask(tt.asks))
			if want := h.names().Replace(tt.want); got != want {
				t.Errorf("asked with\n%q, want\n%q", got, want)
			}
		})
	}
	last := *h.conn.queries.last
	h.conn.queries.ask(asks{standing: true})
	if next := h.conn.queries.last; last.secret == last.hello || last.secret == newAsked().last.secret ||
		next.hello == last.hello || next.secret != last.secret {
		t.Errorf("secrets %s, %s and then %s, %s", last.secret, last.hello, next.secret, next.hello)
	}
}

// newAsked returns queries of which one was asked.
func newAsked() *queries {
	var qs queries
	qs.ask(asks{})
	return &qs
}

// older makes the names in text those of the question before.
func older(text string) string { return strings.ReplaceAll(text, "{", "{older ") }

// hearing is a ReplyReader with its client. It replaces the copier.
type hearing struct {
	conn    Conn
	reader  ReplyReader
	in      []byte
	client  []byte   // the bytes the client has got
	between bool     // they end between two frames
	want    string   // the bytes the client should get
	met     []uint64 // queries that were answered
	after   uint64   // replies after the last answer
	size    int      // of all that was read
	deaf    bool     // no pump takes the answers
}

func newHearing() *hearing {
	h := &hearing{between: true}
	h.conn.Init(Options{Facts: func() Facts { return Facts{} }})
	h.conn.Connected("10.0.0.1:5000")
	h.conn.Expect(1000)
	h.reader = NewReader(&h.conn)
	return h
}

// read gives b to the reader.
func (h *hearing) read(b string) {
	h.in = append(h.in, b...)
	for more := true; more; {
		p := h.reader.Split(h.in)
		if p.To > p.From {
			h.client = append(h.client, h.in[p.From:p.To]...)
			h.between = p.Boundary == p.To-p.From
		}
		h.between = h.between || p.Removed
		if p.Answered != 0 {
			h.conn.Deliver(p.Answered)
		}
		h.in = h.in[p.Used:]
		more = p.Removed
	}
}

// play acts out a transcript, in pieces whose sizes next returns.
func (h *hearing) play(a asks, text string, next func(left int) int) {
	qs := &h.conn.queries
	for text != "" {
		at := strings.Index(text[1:], "{ask}") + 1
		if other := strings.Index(text[1:], "{giveUp}") + 1; at == 0 || other > 0 && other < at {
			at = other
		}
		if at == 0 {
			at = len(text)
		}
		part := text[:at]
		text = text[at:]
		switch rest, ok := strings.CutPrefix(part, "{ask}"); {
		case ok:
			qs.ask(a)
			part = rest
		case strings.HasPrefix(part, "{giveUp}"):
			qs.giveUp()
			part = strings.TrimPrefix(part, "{giveUp}")
		}
		h.hear(part, next)
	}
}

// hear gives the copier bytes of the upstream.
func (h *hearing) hear(text string, next func(left int) int) {
	text = h.names().Replace(text)
	var bytes string
	for rest := text; rest != ""; {
		passes, after, _ := strings.Cut(rest, "«")
		cut, more, found := strings.Cut(after, "»")
		h.want += passes
		h.after += replies(passes)
		if found {
			h.after = 0
		}
		bytes += passes + cut
		rest = more
	}
	h.size += len(bytes)
	for bytes != "" {
		n := min(next(len(bytes)), len(bytes))
		h.read(bytes[:n])
		bytes = bytes[n:]
		if h.deaf {
			continue
		}
		select {
		case number := <-h.conn.queries.answered:
			h.met = append(h.met, number)
		default:
		}
	}
}

// replies counts those in text, the last of which may be incomplete.
func replies(text string) (n uint64) {
	var s scan.Replies
	for at, used := 0, 1; used > 0 && at < len(text); at += used {
		var ended bool
		if used, ended = s.Next([]byte(text[at:])); ended && s.First != '>' {
			n++
		}
	}
	if s.Inside() && s.First != '>' {
		n++
	}
	return n
}

// names puts the names of markers into a transcript.
func (h *hearing) names() *strings.Replacer {
	q := &h.conn.queries
	if q.last == nil {
		q = newAsked()
	}
	name := func(secret int, number uint64, role byte) string {
		return fmt.Sprintf("%s%011d%c", string([]digits{q.last.secret, q.last.hello}[secret][:]), number, role)
	}
	wrong := func(name string) string {
		b := []byte(name)
		b[secretDigits-1] = '0' + (b[secretDigits-1]-'0'+1)%10
		return string(b)
	}
	var pairs []string
	for text, role := range map[string]byte{"open": roleOpen, "hello": roleHello, "end": roleEnd, "skip": roleSkip} {
		secret := 0
		if role == roleHello {
			secret = 1
		}
		right := name(secret, q.last.number, role)
		pairs = append(pairs, "{"+text+"}", right, "{older "+text+"}", name(secret, q.last.number-1, role),
			"{wrong "+text+"}", wrong(right),
			"{monitored "+text+"}", name(1, q.last.number, role), "{other "+text+"}", name(0, q.last.number, role),
			"{garbled "+text+"}", right[:secretDigits]+"x"+right[secretDigits+1:])
	}
	return strings.NewReplacer(append(pairs, "{half}", name(0, q.last.number, roleEnd)[:MarkerLength-5])...)
}
