package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// report collects the results of the parts of a run.
type report struct {
	goals    []goal
	sections []string // Markdown, each with its heading
}

// goal is one line of the goals.
type goal struct {
	what, wanted, value string
	met                 verdict
}

// verdict is how a goal came out.
type verdict string

const (
	met    verdict = "met"
	missed verdict = "**not met**"
)

// atLeast judges medians against a lower limit, and atMost against an upper one. Without a
// measurement the goal is missed.
func atLeast(limit float64, values ...series) verdict {
	return judge(values, func(v float64) bool { return v >= limit })
}
func atMost(limit float64, values ...series) verdict {
	return judge(values, func(v float64) bool { return v <= limit })
}

func judge(values []series, good func(float64) bool) verdict {
	reached := 0
	for _, s := range values {
		if m := s.median(); !math.IsNaN(m) && good(m) {
			reached++
		}
	}
	switch {
	case len(values) > 0 && reached == len(values):
		return met
	case reached > 0:
		return verdict(fmt.Sprintf("**%d of %d met**", reached, len(values)))
	}
	return missed
}

func (out *report) goal(what, wanted, value string, met verdict) {
	out.goals = append(out.goals, goal{what, wanted, value, met})
}

func (out *report) section(title string, body ...string) {
	out.sections = append(out.sections, "## "+title+"\n\n"+strings.Join(body, "\n"))
}

// table is one Markdown table.
type table struct {
	head []string
	rows [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(t.head)
	b.WriteString("|" + strings.Repeat("---|", len(t.head)) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	return b.String()
}

// text is the whole report.
func (out *report) text(r *rig, took time.Duration) string {
	var b strings.Builder
	b.WriteString("# lockproxy beside HAProxy, twemproxy and redsync\n\n")
	fmt.Fprintf(&b, "Written by `sh integration/bench/run.sh` on %s: medians over %s (smallest-largest), %v each. "+
		"Ratios are taken within a round.\n\n", time.Now().UTC().Format("2 January 2006"), count(r.rounds, "round"), r.span)
	if r.quick {
		b.WriteString("**A quick run: the shape only.**\n\n")
	}
	if len(out.goals) > 0 {
		t := table{head: []string{"goal", "wanted", "value", ""}}
		for _, g := range out.goals {
			t.add(g.what, g.wanted, g.value, string(g.met))
		}
		b.WriteString("## Goals\n\n" + t.String() + "\n")
	}
	b.WriteString(strings.Join(out.sections, "\n") + "\n")
	b.WriteString(recipe(r))
	b.WriteString(machine(r, took))
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// machine describes the machine and the versions measured.
func machine(r *rig, took time.Duration) string {
	t := table{head: []string{"what", "version"}}
	t.add("lockproxy", output(r.lockproxy, "--version")+", at commit "+output("git", "describe", "--always", "--dirty"))
	server, _, _ := strings.Cut(output("redis-server", "--version"), " sha")
	t.add("Redis, redis-benchmark", server)
	t.add("HAProxy", output("haproxy", "-v"))
	t.add("twemproxy", output("nutcracker", "--version"))
	t.add("redsync, redislock, go-redis", moduleVersion("github.com/go-redsync/redsync/v4")+", "+
		moduleVersion("github.com/bsm/redislock")+", "+moduleVersion("github.com/redis/go-redis/v9"))
	if r.slock != "" {
		t.add("slock", fmt.Sprintf("of its source, SHA-256 %.16s", output("sha256sum", r.slock)))
	}
	t.add("machine", fmt.Sprintf("%s, %d cores, %s, %s", processor(), runtime.NumCPU(), output("uname", "-sr"),
		runtime.Version()))
	t.add("load before and after", fmt.Sprintf("%s and %s; the run took %v", r.loadBefore, loadAverage(),
		took.Round(time.Second)))
	return "## Versions and machine\n\n" + t.String()
}

// output is the first line that a program prints, wherever it prints it, or its error.
func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if line == "" && err != nil {
		return err.Error()
	}
	return line
}

// loadAverage is how many processes wanted to run, over the last one, five and fifteen minutes.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	words := strings.Fields(string(text))
	return strings.Join(words[:min(3, len(words))], " ")
}

// processor is the name that the system gives it.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, found := strings.Cut(string(text), "model name")
	if !found {
		return runtime.GOARCH
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(line, " \t:")
}

// moduleVersion is the version of a module that this program is built with.
func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}
