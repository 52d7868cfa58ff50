package protocol

import (
	"strings"
	"testing"
)

// TestJudge is a table of frames, with the beginning of the next ones, and their fate while query
// 2 is pending.
func TestJudge(t *testing.T) {
	long := "-" + strings.Repeat("x", maxAnswer)
	for _, tt := range []struct {
		name     string
		stage    answersStage
		nested   bool
		frame    string
		want     frameFate
		atOnce   bool // all of frame is removed at once
		answered uint64
		then     answersStage
	}{
		{"a reply", closed, false, ":1\r\n", pass, false, 0, closed},
		{"an error of the client's", closed, false, "-ERR x\r\n", pass, false, 0, closed},
		{"half an error", closed, false, "-ERR x", wait, false, 0, closed},
		{"an error longer than one with a marker", closed, false, long, pass, false, 0, closed},
		{"the opening marker", closed, false, openAnswer, remove, true, 0, opened},
		{"the ending marker", opened, false, endAnswer, remove, true, 2, closed},
		{"the ending marker without the opening one", closed, false, endAnswer, remove, true, 2, closed},
		{"the ending marker of another query", opened, false, older(endAnswer), remove, true, 0, closed},
		{"the ending marker as an element", closed, true, endAnswer, remove, true, 2, closed},

		{"an answer", opened, false, alice, remove, false, 0, opened},
		{"an element", opened, true, alice, pass, false, 0, opened},
		{"an error as an answer", opened, false, "-NOPERM x\r\n", remove, false, 0, opened},
		{"a refusal as an answer", opened, false, noHello, remove, false, 0, opened},
		{"HELLO's answer", opened, false, "*14\r\n", remove, false, 0, opened},
		{"HELLO's answer in RESP3", opened, false, "%7\r\n", remove, false, 0, opened},
		{"+QUEUED", opened, false, queued, remove, false, 0, opened},
		{"an array whose length is not known", opened, false, "*3", wait, false, 0, opened},
		{"an array of 34", opened, false, "*34\r\n", remove, false, 0, opened},
		{"a message", opened, false, message, pass, false, 0, opened},
		{"a message of a pattern", opened, false, pmessage, pass, false, 0, opened},
		{"a push", opened, false, push, pass, false, 0, opened},

		{"MONITOR shows our query", opened, false, own + "\"HELLO\"\r\n", remove, true, 0, opened},
		{"MONITOR shows our marker", opened, false, own + "\"HELLO\" \"2\" \"{hello}\"\r\n", remove, true, 0, opened},
		{"MONITOR shows another client", opened, false, other + "\"HELLO\"\r\n", pass, false, 0, opened},
		{"MONITOR shows another command", opened, false, own + "\"GET\" \"k\"\r\n", pass, false, 0, opened},
		{"half a line of MONITOR", opened, false, own, wait, false, 0, opened},

		{"refused, as the login is missing", closed, false, noAuth + noHello + optionError + noAuth,
			remove, true, 2, closed},
		{"refusals, the last is to come", closed, false, noAuth + noHello + optionError, wait, false, 0, closed},
		{"a refusal of the client's", closed, false, noAuth + "+OK\r\n", pass, false, 0, closed},
		{"refusals without HELLO's marker", closed, false, noAuth + noHello + noAuth, pass, false, 0, closed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHearing()
			h.conn.queries.ask(asks{standing: true})
			h.conn.queries.ask(asks{standing: true})
			b := []byte(h.names().Replace(tt.frame))
			n := 0
			if tt.atOnce {
				n = len(b)
			}
			a := answers{stage: tt.stage, number: 2}
			v, removed, answered := a.judge(&h.conn.queries, h.conn.queries.last, b, tt.nested)
			if v != tt.want || removed != n || answered != tt.answered || a.stage != tt.then {
				t.Errorf("verdict %d, %d bytes, answered %d, stage %d;\nwant %d, %d bytes, answered %d, stage %d",
					v, removed, answered, a.stage, tt.want, n, tt.answered, tt.then)
			}
		})
	}
}

// TestRecord: of two answers the beginnings are kept, in any pieces.
func TestRecord(t *testing.T) {
	long := strings.Repeat("x", 2*maxAnswer)
	for _, tt := range []struct {
		name    string
		answers [][]string // in pieces
		want    [2]string
	}{
		{"none", nil, [2]string{}},
		{"one", [][]string{{"+OK\r\n"}}, [2]string{"+OK\r\n"}},
		{"in pieces", [][]string{{"$2\r\n", "a", "b\r\n"}, {":", "1\r\n"}}, [2]string{"$2\r\nab\r\n", ":1\r\n"}},
		{"long", [][]string{{long}, {"x", long, "y"}}, [2]string{long[:maxAnswer], long[:maxAnswer]}},
		{"more", [][]string{{"+a\r\n"}, {"+b\r\n"}, {"+c\r\n"}}, [2]string{"+a\r\n", "+b\r\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a answers
			for _, pieces := range tt.answers {
				a.begin()
				for _, piece := range pieces {
					a.record([]byte(piece))
				}
			}
			if got := [2]string{string(a.head[0]), string(a.head[1])}; got != tt.want || a.count != len(tt.answers) {
				t.Errorf("%d answers %q, want %d: %q", a.count, got, len(tt.answers), tt.want)
			}
		})
	}
}
