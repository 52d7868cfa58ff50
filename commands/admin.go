package commands

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"lockproxy/commands/internal/queue"
	"lockproxy/commands/internal/session"
	"lockproxy/plain"
	"lockproxy/stat"
)

// parseProxy parses LOCKPROXY and its subcommand.
func (p *argParser) parseProxy(argv [][]byte) (a args, err error) {
	if len(argv) == 0 {
		return a, errArity("lockproxy")
	}
	proxy := &proxyArgs{rest: argv[1:]}
	a.sub, a.proxy = strings.ToLower(string(argv[0])), proxy
	counts := map[string][2]int{"help": {0, 0}, "info": {0, 1}, "masters": {0, 0},
		"locks": {1, 5}, "waiters": {1, 1}, "why": {1, 1}, "release": {1, 1}, "admit": {1, 3}}
	count, known := counts[a.sub]
	switch {
	case !known:
		return a, errSubcommand(string(argv[0]))
	case len(proxy.rest) < count[0] || len(proxy.rest) > count[1]:
		return a, errArity("lockproxy|" + a.sub)
	}
	switch a.sub {
	case "info":
		if len(proxy.rest) == 1 && !isWord(proxy.rest[0], "adopt") {
			return a, errWord("LOCKPROXY INFO", string(proxy.rest[0]), []string{"ADOPT"})
		}
		if len(proxy.rest) == 1 {
			a.sub = infoAdopt
		}
	case "locks":
		proxy.page, err = parsePage(proxy.rest)
	case "release", "waiters", "why":
		a.key, err = p.parseKey(proxy.rest[0])
	case "admit":
		err = proxy.takeForce()
	}
	return a, err
}

// takeForce parses master [FORCE]. The master may be two words: master 3.
func (p *proxyArgs) takeForce() error {
	last := len(p.rest) - 1
	if p.force = last > 0 && isWord(p.rest[last], "FORCE"); p.force {
		p.rest = p.rest[:last]
		return nil
	}
	if last == 2 {
		return errWord("LOCKPROXY ADMIT", string(p.rest[last]), []string{"FORCE"})
	}
	return nil
}

// errSubcommand is the reply to a subcommand that there is not.
func errSubcommand(wrote string) error {
	near := plain.Nearest(wrote, []string{"HELP", "INFO", "MASTERS", "LOCKS", "WAITERS", "WHY", "RELEASE", "ADMIT"})
	if wrote = plain.Short(wrote); near != "" {
		//lint:ignore ST1005 Redis words it so
		return fmt.Errorf("ERR unknown subcommand '%s'. Did you mean %s? Try LOCKPROXY HELP.", wrote, near)
	}
	//lint:ignore ST1005 Redis words it so
	return fmt.Errorf("ERR unknown subcommand '%s'. Try LOCKPROXY HELP.", wrote)
}

// proxyArgs are the arguments of a subcommand of LOCKPROXY.
type proxyArgs struct {
	rest  [][]byte
	page  pageArgs // of LOCKPROXY LOCKS
	force bool     // LOCKPROXY ADMIT with FORCE
}

// pageArgs is the arguments of LOCKPROXY LOCKS.
type pageArgs struct {
	cursor uint64
	match  string // empty: all
	count  int
}

var (
	errCursor  = errors.New("ERR invalid cursor")
	errInteger = errors.New("ERR value is not an integer or out of range")
)

// parsePage parses cursor [MATCH pattern] [COUNT n].
func parsePage(argv [][]byte) (p pageArgs, err error) {
	p.count = 10
	if p.cursor, err = strconv.ParseUint(string(argv[0]), 10, 64); err != nil {
		return p, errCursor
	}
	seen, needs := "", map[string]string{"MATCH": "a pattern", "COUNT": "a number"}
	for rest := argv[1:]; len(rest) > 0; rest = rest[2:] {
		option := strings.ToUpper(string(rest[0]))
		switch value, known := needs[option]; {
		case !known:
			return p, errWord("LOCKPROXY LOCKS", string(rest[0]), []string{"MATCH", "COUNT"})
		case option == seen:
			return p, errTwice(option)
		case len(rest) == 1:
			return p, errMissing(option, value)
		}
		if seen = option; option == "MATCH" {
			p.match = string(rest[1])
			continue
		}
		n := string(rest[1])
		if p.count, err = strconv.Atoi(n); err != nil || p.count < 1 || n[0] == '+' {
			return p, errInteger
		}
	}
	return p, nil
}

// operators run LOCKPROXY, and answer the page and the metrics of operators.
type operators struct {
	*sharedOptions
	masterNames
	permissions  *permissions
	outcomes     *outcomes
	queues       *queue.Queues
	followers    *followers
	sessionLocks *session.Locks
	grants       *grants
	started      time.Time
	left         *leftCounter
}

// proxy is LOCKPROXY HELP | INFO [ADOPT] | MASTERS | LOCKS cursor [MATCH pattern] [COUNT n] |
// WAITERS key | WHY key | RELEASE key | ADMIT master [FORCE]
func (o *operators) proxy(c *call) {
	switch c.sub {
	case help:
		c.writeLines(slices.Concat(helpLines, lockHelp))
	case "info":
		c.writeBulk(o.info())
	case infoAdopt:
		o.left.infoAdopt(c)
	case "masters":
		o.masters(c)
	case "locks":
		o.locks(c)
	case "waiters":
		o.waiters(c)
	case "why":
		o.why(c)
	case "release":
		o.release(c)
	case "admit":
		o.admitMaster(c)
	}
}

// locks is LOCKPROXY LOCKS cursor [MATCH pattern] [COUNT n]. The reply is the next cursor and an
// array of maps, each as LOCKINFO replies, with the key in front. Locks that the user may not use
// are left out. The cursor is that of the masters, so it ends all the same.
func (o *operators) locks(c *call) {
	p := &c.proxy.page
	next, found, err := o.opts.Inspector.Scan(c.session.Context(), p.cursor, p.match, min(p.count, 1000))
	if err != nil {
		o.outcomes.writeFailure(c, err)
		return
	}
	if found, err = o.permissions.permitted(c, found); err != nil {
		c.refuse(err)
		return
	}
	c.writeArray(2)
	c.writeBulk(strconv.FormatUint(next, 10))
	c.writeArray(len(found))
	for _, info := range found {
		l := lockOf(&info, o.queues.Waiters(info.Key))
		c.writeLock(&l, true)
	}
}

// release is LOCKPROXY RELEASE key. The reply is 1 if there was such a lock, else 0.
func (o *operators) release(c *call) {
	freed, err := o.opts.Inspector.ReleaseKey(c.session.Context(), c.key)
	if err != nil {
		o.outcomes.writeFailure(c, err)
		return
	}
	o.opts.Log.Info("lock released by an operator", zap.String("key", c.key),
		zap.Stringer("client", c.session.RemoteAddr()), zap.Bool("freed", freed))
	c.outcome = stat.OutcomeReleased
	if !freed {
		c.outcome = stat.OutcomeNotHeld
		c.writeInt(0)
		return
	}
	o.queues.Wake(c.key)
	c.writeInt(1)
}

// info returns the text of LOCKPROXY INFO, in the form of Redis' INFO.
func (o *operators) info() string {
	var b strings.Builder
	line := func(name string, value any) { fmt.Fprintf(&b, "%s:%v\r\n", name, value) }
	b.WriteString("# Proxy\r\n")
	line("lockproxy_version", o.opts.Version)
	line("uptime_in_seconds", int64(time.Since(o.started).Seconds()))
	line("connected_clients", o.opts.Connections())
	line("max_clients", o.opts.MaxClients())
	b.WriteString("\r\n# Locks\r\n")
	waiting, _ := o.queues.Total()
	line("waiting", waiting)
	line("following", o.followers.count())
	line("session_locks", o.sessionLocks.Count())
	for _, c := range infoCounters {
		line(c.name, o.outcomes.counters[c.of[0]].Load())
	}
	b.WriteString("\r\n# Load\r\n")
	load := o.Load()
	line("locks_unsent", load.Waiting)
	line("locks_undecided", load.Running)
	line("lock_window", load.Window)
	line("queue_timeouts", load.TimedOut)
	line("late_ms", (load.LateBy + time.Millisecond - 1).Milliseconds())
	ago := int64(-1) // never late
	if load.LateBy > 0 {
		ago = int64(max(time.Since(load.LateAt), 0) / time.Second)
	}
	line("late_seconds_ago", ago)
	return b.String()
}
