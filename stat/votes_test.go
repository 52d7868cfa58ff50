package stat

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestSlowMasterVotesButIsNoSpare: a slow master votes, and is no spare one.
func TestSlowMasterVotesButIsNoSpare(t *testing.T) {
	voting, down := Master{State: StateVoting}, Master{State: StateDown, Slow: time.Second}
	slow := Master{State: StateVoting, Slow: time.Millisecond}
	for _, tt := range []struct {
		masters []Master
		spare   int
		text    string
	}{
		{[]Master{voting}, 0, "1 of 1 vote, 1 needed, none may fail"},
		{[]Master{voting, voting, voting}, 1, "3 of 3 vote, 2 needed, 1 may fail"},
		{[]Master{voting, slow, voting}, 0, "3 of 3 vote, 1 slow, 2 needed, none may fail"},
		{[]Master{slow, slow, voting}, -1, "3 of 3 vote, 2 slow, 2 needed, none may fail"},
		{[]Master{voting, voting, down}, 0, "2 of 3 vote, 2 needed, none may fail"},
		{[]Master{voting, down, down}, -1, "1 of 3 vote, 2 needed"},
		{slices.Repeat([]Master{voting}, 5), 2, "5 of 5 vote, 3 needed, 2 may fail"},
		{slices.Repeat([]Master{voting}, 4), 1, "4 of 4 vote, 3 needed, 1 may fail"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			v := CountVotes(tt.masters)
			if v.Spare() != tt.spare || v.String() != tt.text {
				t.Errorf("got %d spare and %q, want %d and %q", v.Spare(), v, tt.spare, tt.text)
			}
		})
	}
}

func TestWhy(t *testing.T) {
	for _, tt := range []struct {
		name   string
		master Master
		want   string
	}{
		{"votes in time", Master{State: StateVoting}, ""},
		{"slow", Master{State: StateVoting, Slow: 62 * time.Millisecond}, "answers in 62 ms, later than the majority needs"},
		{"slow by less than 1 ms", Master{State: StateVoting, Slow: time.Microsecond},
			"answers in 1 ms, later than the majority needs"},
		{"down", Master{State: StateDown, Slow: time.Second, Reason: "refused the connection"}, "refused the connection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.master.Why(); got != tt.want {
				t.Errorf("%+v: %q, want %q", tt.master, got, tt.want)
			}
		})
	}
}

// TestLatenessIsShownForAMinute: operators see for a minute that the process was late.
func TestLatenessIsShownForAMinute(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, tt := range []struct {
		by, ago time.Duration
		want    string
	}{
		{2 * time.Second, 12500 * time.Millisecond, "this proxy was late by 2 s, 12 s ago"},
		{1520 * time.Millisecond, time.Minute, "this proxy was late by 1.5 s, 60 s ago"},
		{80*time.Millisecond + 1, -time.Second, "this proxy was late by 80 ms, 0 s ago"},
		{time.Second, time.Minute + 1, ""},
		{0, 0, ""},
	} {
		t.Run(fmt.Sprintf("%v late, %v ago", tt.by, tt.ago), func(t *testing.T) {
			l := Load{LateBy: tt.by, LateAt: now.Add(-tt.ago)}
			if got := l.Lateness(now); got != tt.want {
				t.Errorf("late by %v, %v ago: %q, want %q", tt.by, tt.ago, got, tt.want)
			}
		})
	}
	if got := new(Load).Lateness(now); got != "" {
		t.Errorf("never late: %q", got)
	}
}
