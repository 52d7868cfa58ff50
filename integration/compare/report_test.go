package compare

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// report returns the text of RESULT.md.
func report(subjects []subject, found results, took time.Duration) string {
	var b strings.Builder
	b.WriteString("# lockproxy and Redlock libraries under the same faults\n\n" +
		"Written by `sh integration/compare/run.sh`. Each cell: what should not have happened / tries.\n\n")
	table(&b, "fault, and the consequence counted", subjects, rows, func(r row, s subject) string {
		got := found[cell{r.name, s.name}]
		if r.fenced && !s.fences {
			return "no fences"
		}
		return fmt.Sprintf("%d / %d", got.bad, got.tries)
	})
	b.WriteString("\nLocks of the first three rows that were taken and given back while the fault lasted (at most 20 s):\n\n")
	var telling []row
	for _, r := range rows {
		if r.served {
			telling = append(telling, r)
		}
	}
	table(&b, "fault", subjects, telling, func(r row, s subject) string {
		got := found[cell{r.name, s.name}]
		return fmt.Sprintf("%d / %d", got.served, got.tries)
	})
	b.WriteString(recipe)
	b.WriteString("\n## Versions and machine\n\n")
	for _, s := range subjects {
		if s.missing != "" {
			fmt.Fprintf(&b, "- %s: not run, %s\n", s.name, s.missing)
			continue
		}
		fmt.Fprintf(&b, "- %s: %s\n", s.name, s.version)
	}
	server, _, _ := strings.Cut(output("redis-server", "--version"), " sha")
	kernel, _, _ := strings.Cut(output("uname", "-sr"), "-")
	fmt.Fprintf(&b, "- masters: %s\n- machine: %s, %d cores, %s, %s; the whole run took %v\n", server, processor(),
		runtime.NumCPU(), kernel, runtime.Version(), took.Round(time.Second))
	return b.String()
}

// table writes one line per row and one column per subject.
func table(b *strings.Builder, title string, subjects []subject, rows []row, fill func(row, subject) string) {
	head, rule := "| "+title+" |", "|---|"
	for _, s := range subjects {
		head, rule = head+" "+s.name+" |", rule+"---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", head, rule)
	for _, r := range rows {
		fmt.Fprintf(b, "| %s |", r.name)
		for _, s := range subjects {
			text := "not run"
			if s.missing == "" {
				text = fill(r, s)
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

const recipe = `
## Method

Every round starts masters of its own (redis-server, nothing saved) and two clients that share only them: two proxies
with their defaults and the max-ttl named; two sets of library clients, each as the library's README shows it (go-redis and
ioredis with an address only, default repetitions). node-redlock is there twice: the release that npm calls latest,
and the version 5 that its README describes. Each takes and gives back as many locks as will be used before the fault, so
that connections are open, like those of a client in use.

- **Paused**: five masters, ttl 60 s. One is stopped (SIGSTOP) for 4 s or until all 20 locks, begun one after the other
  within 3 s, were taken, held for 1 s and given back, at most 20 s; then it goes on. A lock key that any master still has
  3 s after that is a stray: that lock has no holder.
- **Late delivery**: five masters, a relay before each. One relay keeps all bytes while 20 locks are taken. Then new
  connections pass, 4 s later the locks are given back, and at last the old connections' bytes arrive, like those that a
  system sends again after a broken network lost them.
- **Network cut**: 20 locks are taken; one master's relay keeps all bytes; the locks are given back; the relay resets its
  connections, refuses new ones for 1 s, and works again.
- **Granted twice**: three masters, ttl and max-ttl 5 s. A client locks; two masters are killed and started empty, or get
  FLUSHALL, or their clocks step 10 s ahead. A second client tries until it is granted the lock. Counted: that was before
  the first's validity ended.
- **Lost updates**: three masters, ttl 1 s, eight clients that lock, read a number, work for 5 ms, write back one more,
  unlock. Every sixth is away for 1.5 s before it writes. Counted: accepted writes that are missing in the result. With
  fences the resource refuses numbers below the highest it has seen.
- **Fences**: three masters, max-ttl 1 s, two clients that lock one key over and over while two masters, two others, and
  all three are killed and started empty, and flushed. Counted: grants whose number is not above an earlier one's.

## To be fair

- The page that the libraries implement names most of these faults: Redis' "Distributed Locks with Redis" asks for
  persistence with fsync, or for restarts delayed by the longest ttl ("Performance, Crash Recovery and fsync"), which is the
  operator's work; and for fencing tokens, and warns of clock steps ("Disclaimer about consistency"). If masters keep
  their locks, or come back late enough, a restart grants no lock twice. The page does not mention FLUSHALL.
- lockproxy has a price for its zeros there: masters that forgot do not vote for max-ttl, and as long as they are a
  majority no lock is granted, of other keys neither.
- Lost updates after a pause no lock prevents; that row shows what fences are for. lockproxy without them loses as many
  as the others.
- A stray key grants no lock. It keeps others out of one master's vote until its ttl ends; strays on a majority
  of masters make a lock without a holder.
- node-redlock has one connection to each master and no time limit on its replies, so a release cannot overtake its lock
  there, and no stray is left. The price is in the second table: version 4 waits for the slowest master.
- redsync's WithFailFast(true), which its README does not show, does not wait for slow masters.
- node-redlock's using() and lockproxy's SESSION renew a lock while the work lasts. They help if the work is long, but
  not if the process is stopped (using) or goes on after the lock is lost.
`

// output returns the first line that a program prints, or its error.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return err.Error()
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// commit returns the commit under test.
func commit() string { return output("git", "rev-parse", "--short", "HEAD") }

// processor returns the system's name for the processor.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, found := strings.Cut(string(text), "model name")
	if !found {
		return runtime.GOARCH
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, " \t:")
}

// moduleVersion returns the version of a module in the test binary.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return output("go", "list", "-m", "-f", "{{.Version}}", path)
}
