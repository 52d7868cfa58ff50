package relay

import (
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// The comparison reports every difference that matters, and ignores those that are natural.
func TestFidelityComparisonFindsDifferences(t *testing.T) {
	t.Parallel()
	lockError := "-ERR unknown command 'LOCK', with args beginning with: 'k' '5s' \r\n"
	token := lab.Bulk("0000000000000007:" + strings.Repeat("9f", 20))
	open, end := "-ERR unknown command 'mask-0(', with args beginning with: \r\n",
		"-ERR unknown command 'mask-0)', with args beginning with: \r\n"
	push := ">2\r\n" + lab.Bulk("invalidate") + "*1\r\n" + lab.Bulk("k")
	monitor := func(addr, what string) string { return "+1795266996.073488 [0 " + addr + "] " + what + "\r\n" }
	for name, c := range map[string]struct {
		got, want string
		masks     []mask
		locks     []string
		sent      string
		state     connectionState
		equal     bool
	}{
		"equal":        {got: "+OK\r\n:1\r\n", want: "+OK\r\n:1\r\n", equal: true},
		"a byte":       {got: "+OK\r\n:1\r\n", want: "+OK\r\n:2\r\n"},
		"less":         {got: "+OK\r\n", want: "+OK\r\n:2\r\n"},
		"more":         {got: "+OK\r\n:2\r\n", want: "+OK\r\n"},
		"half a reply": {got: "+OK\r\n$5\r\nab", want: "+OK\r\n$5\r\nabcde\r\n"},
		"order":        {got: ":1\r\n:2\r\n", want: ":2\r\n:1\r\n"},
		"ids":          {got: "$2\r\nid\r\n:7\r\n", want: "$2\r\nid\r\n:12\r\n", equal: true},
		"monitor": {got: monitor("1.2.3.4:5", `"GET" "a"`), want: monitor("1.2.3.4:6", `"GET" "a"`),
			equal: true},
		"monitor shows another": {got: monitor("1.2.3.4:5", `"GET" "a"`), want: monitor("1.2.3.4:6", `"GET" "b"`)},
		"monitor shows the harness": {got: "+OK\r\n", want: "+OK\r\n" + monitor("1.2.3.4:6", `"PING" "harness"`),
			equal: true},
		"value": {got: open + ":17\r\n" + end, want: open + ":18\r\n" + end, masks: []mask{maskValue},
			equal: true},
		"value of another type": {got: open + ":17\r\n" + end, want: open + "+a\r\n" + end, masks: []mask{maskValue}},
		"value moved":           {got: open + end + ":17\r\n", want: open + ":18\r\n" + end, masks: []mask{maskValue}},
		"elements in another order": {got: open + "*2\r\n:1\r\n:2\r\n" + end, want: open + "*2\r\n:2\r\n:1\r\n" + end,
			masks: []mask{maskOrder}, equal: true},
		"other elements": {got: open + "*2\r\n:1\r\n:3\r\n" + end, want: open + "*2\r\n:2\r\n:1\r\n" + end,
			masks: []mask{maskOrder}},
		"lock": {got: ":1\r\n" + token + ":2\r\n", want: ":1\r\n" + lockError + ":2\r\n",
			locks: []string{"$57\r\n"}, equal: true},
		"lock too early":            {got: token + ":1\r\n:2\r\n", want: ":1\r\n" + lockError + ":2\r\n"},
		"lock too late":             {got: ":1\r\n:2\r\n" + token, want: ":1\r\n" + lockError + ":2\r\n"},
		"lock not answered":         {got: ":1\r\n:2\r\n", want: ":1\r\n" + lockError + ":2\r\n"},
		"lock answered twice":       {got: token + token, want: lockError},
		"lock not recognised":       {got: lockError, want: lockError},
		"lock left to the upstream": {got: lockError, want: lockError, sent: "CLIENT REPLY SKIP", equal: true},
		"lock refused":              {got: "-NOAUTH x\r\n", want: lockError, locks: []string{"$57\r\n"}},
		"lock granted":              {got: token, want: lockError, locks: []string{"-NOAUTH "}},
		"lock without AUTH":         {got: token, want: lockError, state: connectionState{noAuth: true}},
		"lock answered otherwise":   {got: "+PONG\r\n", want: lockError},
		"lock behind a push":        {got: push + token, want: lockError + push, equal: true},
		"a push that is missing":    {got: token, want: lockError + push},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fidelityScript{masks: c.masks, locks: c.locks, state: c.state}
			s.text.WriteString(c.sent)
			if what, _ := s.differs(c.got, c.want); (what == "") != c.equal {
				t.Errorf("differs returned %q", what)
			}
		})
	}
}

// A request that is malformed before its name is known belongs to no command; the proxy must not
// take the lock command before it for a part of it and forward that, too. TestFidelity found this
// bug.
func TestMalformedRequestAfterLockIsNotPartOfIt(t *testing.T) {
	t.Parallel()
	c := lab.StartCluster(t, 1)
	for _, broken := range []string{"*1\r\n$4\nEXEC\r\n", "*1\r\n$x\r\n", "*1\r\nx\r\n", "*x\r\n"} {
		host, direct := lab.Dial(t, c.Addr), lab.Dial(t, c.Upstream.Addr)
		direct.Send(broken)
		want, closed, _ := direct.Rest(lab.Patience)
		if !closed {
			t.Fatalf("%q: Redis answered %q and did not close the connection", broken, want)
		}
		host.Send("LOCKINFO free\r\n" + broken)
		if got, closed, _ := host.Rest(lab.Patience); got != lab.Null2+want || !closed {
			t.Errorf("%q: got %q (closed %v), want %q and a close", broken, got, closed, lab.Null2+want)
		}
	}
}
