package resp

import (
	"testing"

	"lockproxy/resp/internal/protocol"
)

// TestEffectChoosesTheNextTask is a table of effects, and the pump's next task, the replies of
// ours and the reason of the end.
func TestEffectChoosesTheNextTask(t *testing.T) {
	for _, tt := range []struct {
		name    string
		effect  protocol.Effect
		watched bool // OnEnd was called
		step    step
		reading readingMode
		quit    bool
	}{
		{"none", protocol.EffectNone, true, stepPump, readingRequests, false},
		{"RESET", protocol.EffectReset, true, stepReset, readingRequests, false},
		{"RESET, not watched", protocol.EffectReset, false, stepPump, readingRequests, false},
		{"CLIENT REPLY ON", protocol.EffectAsk, true, stepAsk, readingRequests, false},
		{"SYNC", protocol.EffectOpaque, true, stepPump, readingOpaque, false},
		{"QUIT", protocol.EffectQuit, true, stepPump, readingRequests, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSession(&NewServer(Options{}).shared, &picky{}, nil)
			defer s.srv.loops.Close()
			if tt.watched {
				s.OnEnd(func(End) {})
			}
			p := &s.pump
			p.apply(tt.effect)
			if p.step != tt.step || p.reading != tt.reading || s.life.quit.Load() != tt.quit {
				t.Errorf("step %d, reading %d, quit %v", p.step, p.reading, s.life.quit.Load())
			}
			if opaque := tt.reading == readingOpaque; s.out.noReply.Load() != opaque {
				t.Errorf("replies of ours are off: %v, want %v", !opaque, opaque)
			}
		})
	}
}
