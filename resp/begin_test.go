package resp

import (
	"strings"
	"testing"
)

// TestBegunCommandEndsInAnyOrder drives a command that Options.Begin runs through the orders in
// which Begin can return, done be called, the reply be written and the loop's watch end.
func TestBegunCommandEndsInAnyOrder(t *testing.T) {
	for _, tt := range []struct {
		order string // steps; a step ends in ! if it must return true
		want  phase
	}{
		{"start refused", phaseNone},
		{"start refused complete", phaseNone},
		{"start returned!", phaseRuns},
		{"start returned! arrival!", phaseRuns},
		{"start arrival", phaseBegins},
		{"start complete! complete", phaseCompleted},
		{"start complete! returned!", phaseReplies},
		{"start complete! replied returned", phaseNone},
		{"start returned! complete! complete", phaseReplies},
		{"start returned! complete! arrival! replied", phaseNone},
		{"start returned! complete! replied complete arrival", phaseNone},
		{"start returned! stop! complete! replied", phaseNone},
		{"start stop", phaseBroken},
		{"start stop complete", phaseBroken},
		{"start complete! stop! replied", phaseNone},
		{"start complete! replied stop", phaseNone},
		{"stop", phaseNone},
		{"start returned! late", phaseRuns},
	} {
		t.Run(tt.order, func(t *testing.T) {
			b, number := begun{}, uint64(0)
			do := map[string]func() bool{
				"start":    func() bool { number = b.start(); return false },
				"refused":  func() bool { b.refused(); return false },
				"returned": func() bool { return b.returned(false) },
				"arrival":  b.noteArrival,
				"complete": func() bool { return b.complete(number) },
				"late":     func() bool { return b.complete(number - 1) },
				"stop":     func() bool { return b.stopLocked(nil) },
				"replied":  func() bool { b.repliedLocked(); return false },
			}
			for step := range strings.FieldsSeq(tt.order) {
				name, want := strings.CutSuffix(step, "!")
				if got := do[name](); got != want {
					t.Errorf("%s returned %v", step, got)
				}
			}
			if b.phase != tt.want {
				t.Errorf("phase %d, want %d", b.phase, tt.want)
			}
		})
	}
}
