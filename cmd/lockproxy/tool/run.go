package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"lockproxy/conf"
)

var runCommand = Subcommand{
	Name: "run", args: "-- command [argument ...]",
	help: "run a command while a lock is held",
	more: `The lock is a SESSION lock: the proxy renews it, and it is free as soon as the command ends. The command has
LOCKPROXY_KEY, LOCKPROXY_TOKEN and LOCKPROXY_FENCE in its environment. It gets the signals INT, TERM, HUP, QUIT,
USR1 and USR2.

If the lock is lost, or soon may be as no proxy confirms it, the command gets TERM. It gets KILL after --grace, or
when the lock runs out, whichever is first. If the lock has run out already, it gets KILL after --grace. Signals
go to the command's whole process group.

exit codes, beside the command's own (128 + n if signal n ended it):
   64  wrong flags
   69  no proxy can be reached, or no majority of the masters
   74  the lock was lost while the command ran, whatever it exited with
   75  the lock is taken: another held it for all of --wait
   77  the proxy refuses the user, or refuses the lock to the user
  126  the command cannot be run
  127  there is no such command
`,
	Define: func(flags *flag.FlagSet) func(context.Context, *invocation) int {
		j := &job{target: targetFlags(flags)}
		flags.StringVar(&j.key, "key", "", "the lock's key")
		ttl := periodFlag(flags, "ttl", 30*time.Second, "how long the lock outlives a proxy or this machine")
		wait := periodFlag(flags, "wait", 0, "how long to wait for the lock; without it, one try")
		grace := periodFlag(flags, "grace", 10*time.Second, "time for the command to end after TERM, when the lock is lost")
		flags.StringVar(&j.owner, "owner", "", "who LOCKINFO says holds it, at most 55 printable bytes (default: host:pid)")
		return func(ctx context.Context, t *invocation) int {
			j.invocation, j.ttl, j.wait, j.grace = t, ttl.Duration, wait.Duration, grace.Duration
			return j.run(ctx)
		}
	},
}

// job is one run of lockproxy run: a lock, and a command that runs while it is held.
type job struct {
	*invocation
	target           *target
	key, owner       string
	ttl, wait, grace time.Duration

	label   string // the owner label, which is unique
	signals chan os.Signal
	client  *client
	frames  chan frame // from the proxy, up to its error
	token   string
	fence   string
}

// frame is a reply or push of the proxy, or the error that ended reading.
type frame struct {
	reply
	err error
}

// forwarded are the signals that the command gets, except those that were ignored when lockproxy
// started, as by nohup. This must run before main listens to any signal.
var forwarded = slices.DeleteFunc([]os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}, signal.Ignored)

func (j *job) run(ctx context.Context) int {
	if j.key == "" || len(j.args) == 0 {
		return j.fail(exitUsage, "needs --key and a command: lockproxy run --key K --ttl 30s -- command")
	}
	path, err := exec.LookPath(j.args[0])
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		return j.fail(exitNotFound, "%s: no such command", j.args[0])
	case err != nil:
		return j.fail(exitCannotRun, "%v", err)
	}
	j.label = j.ownerLabel()
	j.signals = make(chan os.Signal, 8)
	signal.Notify(j.signals, forwarded...)
	defer signal.Stop(j.signals)

	// The kernel kills the command if the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if code := j.lock(context.WithoutCancel(ctx)); code != 0 {
		return code
	}
	defer j.client.Close()
	return j.runChild(path)
}

// ownerLabel returns a label that no other lock has, as LOCKINFO shows no token.
func (j *job) ownerLabel() string {
	name := j.owner
	if name == "" {
		host, _ := os.Hostname()
		name = host + ":" + strconv.Itoa(os.Getpid())
		name = name[max(0, len(name)-55):]
	}
	return name + "/" + rand.Text()[:8]
}

// lockRetry is the pause between attempts that fail for a passing reason.
const lockRetry = 250 * time.Millisecond

// lock takes the lock, or returns an exit code. If a proxy ends meanwhile, it tries the next one.
func (j *job) lock(ctx context.Context) int {
	deadline := time.Now().Add(j.wait)
	for {
		left := time.Until(deadline)
		code, why := j.tryLock(ctx, max(0, left))
		if code == 0 {
			return 0
		}
		passing := code == exitUnavailable || code == exitTaken
		if !passing || time.Until(deadline) < lockRetry {
			return j.fail(code, "%s", why)
		}
		select {
		case <-time.After(lockRetry):
		case s := <-j.signals:
			return signalCode(s)
		}
	}
}

// tryLock asks one proxy once. After code 0 the lock is held, and client and token are set.
func (j *job) tryLock(ctx context.Context, wait time.Duration) (code int, why string) {
	c, err := j.connect(ctx, j.target, true)
	switch {
	case errors.Is(err, errDenied):
		return exitDenied, err.Error()
	case err != nil:
		return exitUnavailable, err.Error()
	}
	args := []string{"LOCK", j.key, conf.FormatDuration(j.ttl), "SESSION", "OWNER", j.label, "FULL"}
	if wait >= time.Millisecond {
		args = append(args, "WAIT", conf.FormatDuration(wait))
	}
	if err = c.send(args...); err != nil {
		c.Close()
		return exitUnavailable, err.Error()
	}
	frames := make(chan frame)
	done := make(chan struct{})
	go readFrames(c, frames, done)
	keep := false
	defer func() {
		if !keep {
			close(done)
			c.Close()
		}
	}()
	timeout := time.After(wait + dialTimeout)
	for {
		select {
		case s := <-j.signals:
			return signalCode(s), "a signal came while waiting: " + s.String()
		case <-timeout:
			return exitUnavailable, c.name + ": no answer"
		case f := <-frames:
			if f.kind == '>' && f.err == nil {
				continue
			}
			if code, why = j.granted(f, c.name); code != 0 {
				return code, why
			}
			keep, j.client, j.frames = true, c, frames
			return 0, ""
		}
	}
}

// granted reads the reply to LOCK.
func (j *job) granted(f frame, proxy string) (code int, why string) {
	switch {
	case f.err != nil:
		return exitUnavailable, proxy + ": " + f.err.Error()
	case f.kind == '-':
		return lockErrorCode(f.text), f.text
	case f.null:
		return exitTaken, fmt.Sprintf("%s is taken", j.key)
	case len(f.list) != 3:
		return exitUnavailable, proxy + ": " + errReply.Error()
	}
	j.token, j.fence = f.list[0].text, f.list[1].text
	return 0, ""
}

// lockErrorCode returns the exit code for an error reply to LOCK.
func lockErrorCode(text string) int {
	// the upstream is down; the user may be right
	if strings.HasPrefix(text, "NOAUTH the upstream has not said yet") {
		return exitUnavailable
	}
	var word string
	fmt.Sscan(text, &word)
	switch word {
	case "NOAUTH", "NOPERM", "WRONGPASS":
		return exitDenied
	case "LOCKQUEUEFULL":
		return exitTaken
	case "NOQUORUM", "TRYAGAIN":
		return exitUnavailable
	}
	return exitUsage // the key, the ttl or the owner
}

// readFrames reads until the connection ends or done is closed.
func readFrames(c *client, frames chan<- frame, done <-chan struct{}) {
	for {
		r, err := c.next()
		select {
		case frames <- frame{r, err}:
		case <-done:
			return
		}
		if err != nil {
			return
		}
	}
}

// signalCode returns the exit code for a signal.
func signalCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}
