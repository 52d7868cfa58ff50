package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/stat"
)

var statusCommand = Subcommand{
	Name: "status",
	help: "show the status of the masters, the upstream and the locks",
	more: `It shows the locks if the proxy lists them: with admin-commands on, or through its Unix socket.

exit codes: 0 a majority of the masters can vote, slow ones included, 1 it cannot,
64 wrong flags, 69 the proxy cannot be reached, 77 it refuses the user
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		v := &viewer{target: targetFlags(flags)}
		flags.BoolVar(&v.json, "json", false, "print it as JSON")
		flags.BoolVar(&v.watch, "watch", false, "repeat until interrupted")
		every := periodFlag(flags, "interval", time.Second, "with --watch: how often")
		flags.IntVar(&v.locks, "locks", 50, "how many locks to show at most")
		return func(ctx context.Context, t *invocation) int {
			v.target.operator = true
			v.invocation, v.every = t, max(every.Duration, 100*time.Millisecond)
			return v.run(ctx)
		}
	},
}

// viewer is one run of lockproxy status.
type viewer struct {
	*invocation
	target      *target
	json, watch bool
	every       time.Duration
	locks       int
}

// statusResult is the result, also as JSON.
type statusResult struct {
	Address  string              `json:"address"`
	Info     map[string]string   `json:"info"`
	Upstream upstreamStatus      `json:"upstream"`
	Majority bool                `json:"majority_votes"`
	Spare    int                 `json:"spare_masters"` // that may fail; slow ones do not count
	Lateness string              `json:"lateness,omitempty"`
	Masters  []stat.MasterReport `json:"masters"`
	Locks    []stat.Lock         `json:"locks"`
	MoreLock bool                `json:"more_locks"`
	LocksErr string              `json:"locks_error,omitempty"`

	votes stat.Votes
}

type upstreamStatus struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error,omitempty"`
	RTTMicro int64  `json:"rtt_us"`
}

func (v *viewer) run(ctx context.Context) int {
	for {
		s, err := v.fetch(ctx)
		text := ""
		switch {
		case err == nil && v.json:
			line, _ := json.Marshal(s)
			text = string(line) + "\n"
		case err == nil:
			text = s.text(v.onTerminal(v.stdout))
		}
		if v.watch && !v.json && v.onTerminal(v.stdout) {
			fmt.Fprint(v.stdout, "\x1b[H\x1b[2J") // home and clear
		}
		fmt.Fprint(v.stdout, text)
		if err != nil && !(v.watch && ctx.Err() != nil) {
			if code := v.fail(connectCode(err), "%v", err); !v.watch || code == exitUsage {
				return code
			}
		}
		if !v.watch {
			return map[bool]int{true: 0, false: exitFailed}[s.Majority]
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(v.every):
		}
	}
}

// fetchTimeout bounds all questions to a proxy.
const fetchTimeout = 10 * time.Second

// fetch asks a proxy for the whole status.
func (v *viewer) fetch(ctx context.Context) (*statusResult, error) {
	ctx, cancel := within(ctx, fetchTimeout)
	defer cancel()
	c, err := v.connect(ctx, v.target, false)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s := &statusResult{Address: c.name}
	if s.Info, err = askInfo(ctx, c); err != nil {
		return nil, err
	}
	s.Lateness = latenessOf(s.Info)
	if s.Masters, s.votes, err = askMasters(ctx, c); err != nil {
		return nil, err
	}
	s.Majority, s.Spare = s.votes.Majority(), s.votes.Spare()
	if err := v.askLocks(ctx, c, s); err != nil {
		return nil, err
	}
	// last: an upstream that is down may take the connection with it
	s.Upstream, err = askUpstream(ctx, c)
	return s, err
}

// answer calls ask and returns an error reply as an error.
func answer(ctx context.Context, c *client, args ...string) (proxyReply, error) {
	r, err := c.ask(ctx, args...)
	if err == nil && r.Kind == '-' {
		err = errors.New(r.Text)
		switch {
		case lockErrorCode(r.Text) == exitDenied:
			err = fmt.Errorf("%w: %s", errDenied, r.Text)
		case strings.HasPrefix(r.Text, fullText):
			err = fmt.Errorf("%w: %s", errFull, r.Text)
		}
	}
	return r, err
}

func askInfo(ctx context.Context, c *client) (map[string]string, error) {
	r, err := answer(ctx, c, "LOCKPROXY", "INFO")
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(r.Text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info, nil
}

// latenessOf returns stat.Load.Lateness, from LOCKPROXY INFO. Older proxies do not say.
func latenessOf(info map[string]string) string {
	now := time.Now()
	load := stat.Load{LateBy: time.Duration(integer(info["late_ms"])) * time.Millisecond,
		LateAt: now.Add(-time.Duration(integer(info["late_seconds_ago"])) * time.Second)}
	return load.Lateness(now)
}

func askMasters(ctx context.Context, c *client) (masters []stat.MasterReport, votes stat.Votes, err error) {
	r, err := answer(ctx, c, "LOCKPROXY", "MASTERS")
	for i := range r.Elems {
		var m stat.MasterReport
		stat.SetFields(m.Fields(), r.Elems[i].Fields())
		masters = append(masters, m)
	}
	return masters, stat.CountReports(masters), err
}

// askLocks reads pages of locks until there are enough. A proxy may refuse to list locks, which is
// no error.
func (v *viewer) askLocks(ctx context.Context, c *client, s *statusResult) error {
	s.Locks = []stat.Lock{}
	for cursor := "0"; ; {
		r, err := c.ask(ctx, "LOCKPROXY", "LOCKS", cursor, "COUNT", "100")
		switch {
		case err != nil:
			return err
		case r.Kind == '-':
			s.LocksErr = r.Text
			return nil
		case len(r.Elems) != 2:
			return errReply
		}
		for _, entry := range r.Elems[1].Elems {
			if len(s.Locks) >= v.locks {
				s.MoreLock = true
				return nil
			}
			s.Locks = append(s.Locks, lockOf(entry))
		}
		if cursor = r.Elems[0].Scalar(); cursor == "0" || cursor == "" {
			return nil
		}
	}
}

// upstreamTimeout bounds the wait for the upstream. It is shorter than fetchTimeout, so that
// status can show an upstream that hangs.
const upstreamTimeout = 2 * time.Second

// askUpstream sends PING, which the proxy relays. An upstream that refuses this user works, too.
// If there is no answer, the connection cannot be used any more.
func askUpstream(ctx context.Context, c *client) (upstreamStatus, error) {
	limited, cancel := within(ctx, upstreamTimeout)
	defer cancel()
	start := time.Now()
	r, err := c.ask(limited, "PING")
	switch {
	case err != nil && ctx.Err() != nil:
		return upstreamStatus{}, err
	case err != nil:
		return upstreamStatus{Error: err.Error()}, nil
	case r.Kind == '-' && !refusesUser(r.Text):
		return upstreamStatus{Error: r.Text}, nil
	}
	return upstreamStatus{OK: true, RTTMicro: time.Since(start).Microseconds()}, nil
}

// refusesUser reports whether an error reply is about who asks, so that the server works.
func refusesUser(text string) bool {
	return strings.HasPrefix(text, "NOAUTH") || strings.HasPrefix(text, "NOPERM")
}

func integer(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// infoOf returns a field of LOCKPROXY INFO, or "?".
func (s *statusResult) infoOf(name string) string { return cmp.Or(s.Info[name], "?") }

// lockOf reads one map of LOCKPROXY LOCKS.
func lockOf(entry proxyReply) (l stat.Lock) {
	stat.SetFields(l.Fields(), entry.Fields())
	for i := 0; i+1 < len(entry.Elems); i += 2 {
		if entry.Elems[i].Text != "slots" {
			continue
		}
		for _, fields := range entry.Elems[i+1].Elems {
			var slot stat.Slot
			stat.SetFields(slot.Fields(), fields.Fields())
			l.Slots = append(l.Slots, slot)
		}
	}
	return l
}
