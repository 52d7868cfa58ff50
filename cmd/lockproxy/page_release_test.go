package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPageReleasesOnlyWithAdminCommands: the page frees a lock where admin-commands is on, and
// only there. The audit log says so either way.
func TestPageReleasesOnlyWithAdminCommands(t *testing.T) {
	for setting, want := range map[string]struct{ answer, outcome string }{
		"off": {"403 to release locks here needs admin-commands: on, or admin-listen on a Unix socket\n", "denied"},
		"on":  {"200 {\"freed\":true}\n", "released"},
	} {
		t.Run(setting, func(t *testing.T) {
			audit := filepath.Join(t.TempDir(), "audit")
			addr, log, stop := started(t, "--admin-listen", "127.0.0.1:0", "--admin-commands", setting, "--audit-log", audit)
			page := regexp.MustCompile(`"admin_listen":"([0-9.:]+)"`).FindStringSubmatch(log.String())
			c, err := net.Dial("tcp", addr)
			if err != nil || page == nil {
				t.Fatal(err, page)
			}
			replies := bufio.NewReader(c)
			eventually(t, "a lock", func() bool {
				fmt.Fprint(c, "LOCK job 20s\r\n")
				line, _ := replies.ReadString('\n')
				return strings.HasPrefix(line, "$57")
			})
			r, _ := http.NewRequest("POST", "http://"+page[1]+"/release", strings.NewReader(`{"key":"6a6f62","fence":"0"}`))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("X-Lockproxy", "test")
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got := fmt.Sprint(resp.StatusCode, " ", string(body)); got != want.answer {
				t.Errorf("%s: %q, want %q", setting, got, want.answer)
			}
			http.DefaultClient.CloseIdleConnections()
			c.Close()
			stop()
			lines, _ := os.ReadFile(audit)
			line := regexp.MustCompile(`"command":"release","key":"job","outcome":"` + want.outcome +
				`","client":"127.0.0.1:[0-9]+","via":"page"`)
			if !line.Match(lines) {
				t.Errorf("%s: the audit log has\n%s", setting, lines)
			}
		})
	}
}
