package resp

import (
	"errors"
	"io"
	"testing"
)

// TestOwnRepliesGoBetweenFrames: our replies go between two frames of the upstream, and only
// there.
func TestOwnRepliesGoBetweenFrames(t *testing.T) {
	type piece struct {
		b        string
		boundary int
	}
	for _, tt := range []struct {
		name   string
		before []piece // of the upstream, before the reply is inserted
		after  []piece
		want   string
	}{
		{"no frame yet", nil, []piece{{"+A\r\n", 4}}, "|+A\r\n"},
		{"after a frame", []piece{{"+A\r\n", 4}}, []piece{{"+B\r\n", 4}}, "+A\r\n|+B\r\n"},
		{"inside a frame", []piece{{"$5\r\nab", 0}}, []piece{{"cde\r\n+B\r\n", 5}}, "$5\r\nabcde\r\n|+B\r\n"},
		{"inside a frame that has no end here", []piece{{"$5\r\nab", 0}}, []piece{{"c", 0}, {"de\r\n", 4}},
			"$5\r\nabcde\r\n|"},
		{"a frame and the beginning of one", []piece{{"+A\r\n$5", 4}}, []piece{{"\r\nabcde\r\n", 9}},
			"+A\r\n$5\r\nabcde\r\n|"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &picky{}
			var o outbound
			o.init(p, &progress{})
			forward := func(pieces []piece) {
				for _, one := range pieces {
					o.enter(false)
					o.forwardLocked([]byte(one.b), one.boundary, false)
					o.leave()
				}
			}
			forward(tt.before)
			replied := make(chan error, 1)
			go func() { replied <- o.reply([]byte("|")) }()
			eventually(t, "the reply", func() bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return len(o.insert) > 0 || len(p.got) > 0 && p.got[len(p.got)-1] == '|'
			})
			forward(tt.after)
			if err := within(t, "reply", replied); err != nil || string(p.got) != tt.want {
				t.Errorf("the client got %q (%v), want %q", p.got, err, tt.want)
			}
		})
	}
}

// TestInsertionEnds: a reply that waits for the end of a frame fails if no boundary will be found,
// or if the connection ends.
func TestInsertionEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(*outbound)
		want error
	}{
		"frames are lost": {(*outbound).endReplies, errOpaque},
		"closed":          {func(o *outbound) { o.close(io.ErrClosedPipe) }, io.ErrClosedPipe},
	} {
		t.Run(name, func(t *testing.T) {
			var o outbound
			o.init(&picky{}, &progress{})
			o.enter(false)
			o.forwardLocked([]byte("$5\r\nab"), 0, false)
			o.leave()
			replied := make(chan error, 1)
			go func() { replied <- o.reply([]byte("|")) }()
			eventually(t, "the reply", func() bool {
				o.mu.Lock()
				defer o.mu.Unlock()
				return len(o.insert) > 0
			})
			tt.end(&o)
			if err := within(t, "reply", replied); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if err := o.reply([]byte("|")); !errors.Is(err, tt.want) {
				t.Errorf("later: got %v, want %v", err, tt.want)
			}
		})
	}
}

// TestUndeliveredIsReportedOnce: the function of OnUndelivered is called at most once, and only if
// the reply of its own command fails.
func TestUndeliveredIsReportedOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(*delivery)
		want int
	}{
		{"written", func(d *delivery) { d.finish(nil) }, 0},
		{"not written", func(d *delivery) { d.finish(io.ErrClosedPipe) }, 1},
		{"not written, finished again", func(d *delivery) { d.finish(io.ErrClosedPipe); d.finish(io.ErrClosedPipe) }, 1},
		{"the client sends more, then resets", func(d *delivery) { d.finish(nil); d.inputEnded(io.ErrUnexpectedEOF, nil) },
			0},
		{"no function", func(d *delivery) { d.pending = nil; d.finish(io.ErrClosedPipe) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			d := delivery{pending: func() { calls++ }}
			if tt.act(&d); calls != tt.want {
				t.Errorf("%d calls, want %d", calls, tt.want)
			}
			if d.pending != nil {
				t.Error("the function is kept for the next command")
			}
		})
	}
}
