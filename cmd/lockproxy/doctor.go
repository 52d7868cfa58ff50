package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lockproxy/cmd/lockproxy/tool"
	"lockproxy/conf"
	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/resp/respio"
	"lockproxy/upstream"
)

// Exit codes of lockproxy doctor.
const (
	doctorFailed   = 1
	doctorSettings = 2
)

// doctorTime bounds all checks together. They run at once.
const doctorTime = 3 * time.Second

// Levels of a finding.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// finding is the result of one check.
type finding struct {
	Level  string `json:"level"`
	Server string `json:"server"` // empty: of the proxy itself
	Check  string `json:"check"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"`
}

// doctor collects findings.
type doctor struct {
	cfg      conf.Config
	findings []finding
}

func (d *doctor) note(level, server, check, remedy, format string, args ...any) {
	d.findings = append(d.findings, finding{level, server, check, plain.Line(fmt.Sprintf(format, args...)), remedy})
}

func (d *doctor) ok(server, check, format string, args ...any) {
	d.note(levelOK, server, check, "", format, args...)
}

// runDoctor runs lockproxy doctor and returns its exit code.
func runDoctor(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	asJSON := false
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		found := arg == "--json" || arg == "-json"
		asJSON = asJSON || found
		return found
	})
	cfg, err := conf.Load(args, environ)
	if cfg.Action == conf.Help {
		io.WriteString(stdout, tool.DoctorCommand.Help())
		return 0
	}
	var files *files
	if err == nil && cfg.Embedded() {
		err = fmt.Errorf("name the servers to check: masters and upstream, or --config")
	}
	if err == nil {
		files, err = openFiles(cfg)
	}
	if err != nil {
		fmt.Fprintln(stderr, "lockproxy doctor:", settingsError(err))
		return doctorSettings
	}
	d := &doctor{cfg: cfg}
	d.examine(ctx, files)
	d.print(stdout, asJSON)
	if d.count(levelFail) > 0 {
		return doctorFailed
	}
	return 0
}

// examine makes all checks.
func (d *doctor) examine(ctx context.Context, files *files) {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	done := make(chan *doctor, 1)
	go func() {
		up := &doctor{cfg: d.cfg}
		up.checkUpstream(ctx, files)
		done <- up
	}()
	options := quorumOptions(d.cfg, nil, files, nil, nil)
	found := quorum.Examine(ctx, options)
	for _, warning := range d.cfg.Warnings() {
		d.note(levelWarn, "", "settings", "", "%s", warning)
	}
	d.checkFileLimit(maxFiles())
	for i := range found {
		d.checkMaster(options.Masters[i].NameOf(), &found[i])
	}
	d.checkTogether(options.Masters, found)
	up := <-done
	d.findings = append(d.findings, up.findings...)
}

func (d *doctor) checkFileLimit(allowed uint64) {
	fit := clientsThatFit(d.cfg, allowed)
	remedy := "raise the limit (ulimit -n, LimitNOFILE), or lower max-clients"
	switch err := checkFiles(d.cfg, allowed); {
	case err != nil:
		d.note(levelFail, "", "open files", remedy, "%v", err)
	case fit < d.cfg.MaxClients:
		d.note(levelWarn, "", "open files", remedy, "%d files are allowed, %d clients fit, max-clients is %d", allowed, fit,
			d.cfg.MaxClients)
	default:
		d.ok("", "open files", "%d files are allowed, max-clients %d fits", allowed, d.cfg.MaxClients)
	}
}

// checkUpstream checks the server of all other commands.
func (d *doctor) checkUpstream(ctx context.Context, files *files) {
	up := upstream.New(upstreamOptions(d.cfg, nil, files, nil))
	defer follow(ctx, up, func(context.Context) {})()
	server := up.Name() + " (upstream)"
	facts, err := up.Ask(ctx)
	if err != nil {
		d.note(levelFail, server, "reach", "start it, open the network to it, or correct upstream", "%s",
			upstream.Reason(err))
		return
	}
	conn, err := up.Dial(ctx)
	if err != nil {
		d.note(levelFail, server, "login", "correct the credentials of upstream", "%s", upstream.Reason(err))
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	remote := slices.ContainsFunc(d.cfg.Listen, func(a conf.Address) bool { return !a.Loopback() })
	switch open := !facts.AuthRequired || up.Trusted(); {
	case open && remote && !d.cfg.AllowOpen:
		d.note(levelFail, server, "login",
			"give the upstream a password for clients, listen on loopback, or set allow-open true",
			"it serves clients without a password, and listen lets other machines in")
	case up.Trusted():
		d.ok(server, "login", "it takes the credentials of the settings")
	case facts.AuthRequired:
		d.ok(server, "login", "it wants a password from clients")
	default:
		d.ok(server, "login", "it wants no password")
	}
	if !facts.AuthRequired || up.Trusted() {
		conn.Write(respio.AppendCommand(nil, "INFO", "server"))
		var r respio.Reply
		limits := respio.Limits{Line: 4096, Text: 1 << 20, Elems: 16, Depth: 2, Reply: 2 << 20}
		if err := respio.NewReader(conn, limits).Read(&r); err == nil && !r.IsError() {
			d.ok(server, "version", "%s", softwareIn(r.Text))
		} else {
			d.note(levelWarn, server, "version", "allow INFO to the user of the settings", "INFO is not answered")
		}
	}
	d.checkPermission(ctx, files)
}

// softwareIn returns name and version by a text of INFO.
func softwareIn(info string) string {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	if v := fields["valkey_version"]; v != "" {
		return "valkey " + v
	}
	return "redis " + fields["redis_version"]
}

// checkPermission checks what lock-acl needs.
func (d *doctor) checkPermission(ctx context.Context, files *files) {
	if !d.cfg.LockACL {
		return
	}
	cfg := d.cfg
	if !cfg.LockACLUpstream.IsZero() {
		cfg.Upstream = cfg.LockACLUpstream
	}
	up := upstream.New(upstreamOptions(cfg, nil, files, nil))
	asked := upstream.NewPermission(up)
	defer asked.Close()
	if err := asked.Check(ctx); err != nil {
		d.note(levelFail, up.Name()+" (upstream)", "lock-acl",
			"use Redis 7 or newer, and credentials with +acl|dryrun in upstream or lock-acl-upstream", "%s",
			upstream.Reason(err))
		return
	}
	d.ok(up.Name()+" (upstream)", "lock-acl", "it answers ACL DRYRUN")
}

func (d *doctor) count(level string) (n int) {
	for _, f := range d.findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// print writes the findings: for programs as one object, for people a line each.
func (d *doctor) print(w io.Writer, asJSON bool) {
	if asJSON {
		text, _ := json.Marshal(map[string]any{"findings": d.findings, "warnings": d.count(levelWarn),
			"failures": d.count(levelFail)})
		fmt.Fprintf(w, "%s\n", text)
		return
	}
	for _, f := range d.findings {
		server := f.Server
		if server == "" {
			server = "proxy"
		}
		fmt.Fprintf(w, "%-4s  %s  %s: %s", f.Level, server, f.Check, f.Found)
		if f.Remedy != "" {
			fmt.Fprintf(w, "; %s", f.Remedy)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "%d warnings, %d failures\n", d.count(levelWarn), d.count(levelFail))
}
