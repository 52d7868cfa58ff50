package tool

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"lockproxy/conf"
)

var runCommand = Subcommand{
	Name: "run", args: "-- command [argument ...]",
	help: "run a command while a lock is held",
	more: `The lock is kept until the command has ended, with all that it has left in its process group.
If the proxy ends meanwhile, the lock is kept over the next of --addr, or over the same one when it
is back.

The command has LOCKPROXY_KEY (the first --key), LOCKPROXY_TOKEN and LOCKPROXY_FENCE in its
environment, with --limit also LOCKPROXY_SLOT. It gets the signals INT, TERM, HUP, QUIT, USR1 and
USR2.

If the lock is lost, or soon may be as no proxy confirms it, the command gets TERM. It gets KILL
after --grace, or earlier if the lock runs out before that. If the lock has run out already, it
gets KILL after --grace. Signals go to the command's whole process group.

exit codes, beside the command's own (128 + n if signal n ended it):
   64  wrong flags
   69  no proxy can be reached, or no majority of the masters
   74  the lock was lost while the command ran, with any exit code of the command
   75  the lock is taken: another held it for all of --wait (see --conflict-exit-code)
   77  the proxy refuses the user, or refuses the lock to the user
  126  the command cannot be run
  127  there is no such command
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		j := &job{target: targetFlags(flags)}
		j.define(flags)
		return func(ctx context.Context, t *invocation) int {
			flags.Visit(func(f *flag.Flag) { j.ttlGiven = j.ttlGiven || f.Name == "ttl" })
			j.invocation = t
			return j.run(ctx)
		}
	},
}

// job is one run of lockproxy run: a lock, and a command that runs while it is held.
type job struct {
	*invocation
	target *target
	runFlags

	addresses []conf.Address
	at        int // the one of addresses in use
	signals   chan os.Signal

	link *link // to the proxy, once the lock is granted
	lockGrant
}

// lockGrant is the answer to LOCK.
type lockGrant struct {
	token   string
	fence   string
	slot    string    // with limit
	granted time.Time // when it came
}

// runFlags are the values of the flags.
type runFlags struct {
	keys             []string
	owner            string
	ttl, grace, hold period
	ttlGiven         bool // else it may be made to fit the proxy's limits
	wait             waitFlag
	shared           bool
	limit            int // 0: none
	leaveChildren    bool
	quiet            bool
	conflictCode     int
}

// waitFlag is a flag with a duration, or the word forever.
type waitFlag struct {
	period
	forever bool
}

// Set implements flag.Value.
func (p *waitFlag) Set(s string) error {
	if p.forever = s == "forever"; p.forever {
		return nil
	}
	return p.period.Set(s)
}

// define adds the flags.
func (j *job) define(flags *flag.FlagSet) {
	j.ttl.Duration, j.grace.Duration = 30*time.Second, 10*time.Second
	flags.Func("key", "the lock's key; several, each with --key, are locked together, all or none",
		func(s string) error {
			j.keys = append(j.keys, s)
			return nil
		})
	flags.Var(&j.ttl, "ttl", "how long the lock outlives a proxy or this machine; "+
		"by default less where max-ttl is less")
	flags.Var(&j.wait, "wait", "how long to wait for the lock, or forever; without it, one try")
	flags.Var(&j.hold, "hold", "how long the lock stays closed at least, from when it is taken; "+
		"at most the proxy's max-ttl; without it, until the command has ended")
	flags.BoolVar(&j.shared, "shared", false, "share the lock with all who use this flag, too")
	flags.Func("limit", "so many may hold the lock at a time, each with this flag; from 1 to 128",
		func(s string) (err error) {
			j.limit, err = strconv.Atoi(s)
			if err != nil || j.limit < 1 || j.limit > 128 {
				return errors.New("must be from 1 to 128")
			}
			return nil
		})
	flags.Var(&j.grace, "grace", "time to end after TERM: for the command when the lock is lost, "+
		"for processes that outlive it")
	flags.BoolVar(&j.leaveChildren, "leave-children", false,
		"let processes that outlive the command outlive the lock, too")
	flags.StringVar(&j.owner, "owner", "",
		"who LOCKINFO says holds it, at most 64 printable bytes (default: host:pid)")
	flags.BoolVar(&j.quiet, "quiet", false,
		"print errors only, no message if the lock is taken or kept over another proxy")
	flags.IntVar(&j.conflictCode, "conflict-exit-code", exitTaken,
		"the exit code if the lock is taken")
}

// key returns the first key, which lock commands name.
func (j *job) key() string { return j.keys[0] }

// forwarded are the signals that the command gets, except signals that were ignored when lockproxy
// started, for example by nohup. This must run before main listens to any signal.
var forwarded = slices.DeleteFunc(slices.Clone(forwardable), signal.Ignored)

func (j *job) run(ctx context.Context) int {
	if err := j.checkFlags(); err != nil {
		return j.fail(exitUsage, "%v", err)
	}
	path, err := exec.LookPath(j.args[0])
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		return j.fail(exitNotFound, "%s: no such command", j.args[0])
	case err != nil:
		return j.fail(exitCannotRun, "%v", err)
	}
	if j.addresses, err = j.invocation.addresses(j.target); err != nil {
		return j.fail(exitUsage, "%v", err)
	}
	if j.owner == "" {
		j.owner = defaultOwner()
	}
	j.signals = make(chan os.Signal, 8)
	signal.Notify(j.signals, forwarded...)
	defer signal.Stop(j.signals)

	// The kernel kills the command if the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := j.lock(context.WithoutCancel(ctx)); j.link == nil {
		return code
	}
	return j.runChild(path)
}

// checkFlags checks the rules that the proxy does not check, or would report in the terms of its
// commands.
func (j *job) checkFlags() error {
	switch {
	case len(j.keys) == 0 || j.keys[0] == "" || len(j.args) == 0:
		return errors.New("needs --key and a command: lockproxy run --key K --ttl 30s -- command")
	case j.limit > 0 && j.shared:
		return errors.New("--limit and --shared exclude each other")
	case len(j.keys) > 1 && (j.limit > 0 || j.shared):
		return errors.New("--limit and --shared are for one --key")
	case j.conflictCode < 0 || j.conflictCode > 255:
		return errors.New("--conflict-exit-code is from 0 to 255")
	}
	return nil
}

// maxOwner is the longest owner label, in bytes.
const maxOwner = 64

func defaultOwner() string {
	host, _ := os.Hostname()
	name := host + ":" + strconv.Itoa(os.Getpid())
	return name[max(0, len(name)-maxOwner):]
}

// conflict ends a run whose lock is taken.
func (j *job) conflict(why string) int {
	if !j.quiet {
		j.say("%s", why)
	}
	return j.conflictCode
}

// signalCode returns the exit code for a signal.
func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}

// allKeys returns the key names, for people.
func (j *job) allKeys() string {
	if more := len(j.keys) - 1; more > 0 {
		return fmt.Sprintf("%s and %d more", j.key(), more)
	}
	return j.key()
}

// furtherKeys returns the option of the lock commands that names the keys after the first.
func (j *job) furtherKeys() []string {
	if len(j.keys) == 1 {
		return nil
	}
	return append([]string{"KEYS", strconv.Itoa(len(j.keys) - 1)}, j.keys[1:]...)
}
