package relay

import (
	"fmt"
	"strings"
	"testing"

	"lockproxy/integration/lab"
)

// way is a sequence of steps to a connection state in which a lock command is allowed or refused.
// A step that sends OURS is the lock command; it wants "yes" if the command must run, else the
// beginning of the error.
type way struct {
	name  string
	steps []step
}

const ok = "+OK\r\n"

// forged returns a script whose reply looks like a status reply of Redis.
func forged(status string) string {
	return lab.Encode("EVAL", "return redis.status_reply('"+status+"')", "0")
}

// oursStep returns the step of the lock command itself.
func oursStep(want string) step { return step{"OURS", want} }

var (
	asAdmin  = step{lab.Encode("AUTH", "secret"), ok}
	asApp    = step{lab.Encode("AUTH", "app", "app"), ok}
	reset    = step{lab.Encode("RESET"), "+RESET\r\n"}
	answered = step{"", reset.want}
	multi    = step{lab.Encode("MULTI"), ok}
	queued   = "+QUEUED\r\n"
	execOne  = step{lab.Encode("EXEC"), "*1\r\n+OK\r\n"}
	skip     = lab.Encode("CLIENT", "REPLY", "SKIP")
	discard  = step{lab.Encode("DISCARD"), ok}
	listen   = step{lab.Encode("SUBSCRIBE", "a"), subscription("subscribe", "a", 1)}
	unlisten = step{lab.Encode("UNSUBSCRIBE", "a"), subscription("unsubscribe", "a", 0)}
)

// waysIn returns the ways that start before authentication at an upstream with a password. If
// lock-acl is on, the user app may write only keys of its own.
func waysIn() []way {
	wrong := step{lab.Encode("AUTH", "no"), "-WRONGPASS"}
	return []way{
		{"nothing", []step{oursStep(noAuth)}},
		{"RESET", []step{reset, oursStep(noAuth), oursStep(noAuth)}},
		{"a wrong password", []step{wrong, oursStep(noAuth), reset, oursStep(noAuth)}},
		{"AUTH", []step{oursStep(noAuth), asAdmin, oursStep("yes"), reset, oursStep(noAuth), asAdmin, oursStep("yes")}},
		{"AUTH, then a wrong one", []step{asAdmin, wrong, oursStep("yes"), reset, wrong, oursStep(noAuth)}},
		{"HELLO AUTH", []step{{lab.Encode("HELLO", "2", "AUTH", "default", "secret"), "*14\r\n"}, oursStep("yes"), reset,
			oursStep(noAuth)}},
		{"HELLO 3 AUTH", []step{{lab.Encode("HELLO", "3", "AUTH", "default", "secret"), "%7\r\n"}, oursStep("yes"), reset,
			oursStep(noAuth)}},
		{"HELLO with a wrong password", []step{{lab.Encode("HELLO", "3", "AUTH", "default", "no"), "-WRONGPASS"},
			oursStep(noAuth)}},
		{"HELLO alone", []step{{lab.Encode("HELLO", "3"), "-NOAUTH"}, oursStep(noAuth)}},
		{"two RESETs", []step{asAdmin, reset, reset, oursStep(noAuth)}},
		{"AUTH, SUBSCRIBE", []step{asAdmin, listen, unlisten, oursStep("yes")}},
		{"AUTH, SUBSCRIBE, RESET, AUTH", []step{asAdmin, listen, reset, asAdmin, oursStep("yes"), reset, oursStep(noAuth)}},
		{"AUTH, CLIENT REPLY, RESET, AUTH", []step{asAdmin, {lab.Encode("CLIENT", "REPLY", "ON"), ok}, reset,
			oursStep(noAuth), reset, asAdmin, oursStep("yes")}},
		{"AUTH, DEBUG", []step{asAdmin, {lab.Encode("DEBUG", "SLEEP", "0"), ok}, oursStep("yes"), reset, oursStep(noAuth)}},
		{"AUTH, CLIENT REPLY", []step{asAdmin, {skip + lab.Encode("PING"), ""}, oursStep("yes")}},
		{"AUTH, RESET without a reply", []step{asAdmin, {skip + reset.send, ""}, oursStep(noAuth), asAdmin,
			oursStep("yes")}},
		{"a refused SUBSCRIBE, a lock command, AUTH", []step{{lab.Encode("SUBSCRIBE", "a"), noAuth}, oursStep(noAuth),
			asAdmin, oursStep("yes")}},
		{"MULTI refused", []step{{lab.Encode("MULTI"), noAuth}, oursStep(noAuth), asAdmin, oursStep("yes")}},
		{"RESET in MULTI", []step{asAdmin, multi, reset, oursStep(noAuth)}},
	}
}

// waysAsUsers returns the ways with lock-acl on.
func waysAsUsers() []way {
	const noPerm = "-NOPERM "
	appQueued, adminQueued := step{asApp.send, queued}, step{asAdmin.send, queued}
	helloQueued := step{lab.Encode("HELLO", "2", "AUTH", "app", "app"), queued}
	return []way{
		{"as app", []step{asApp, oursStep(noPerm), reset, oursStep(noAuth), asApp, oursStep(noPerm)}},
		{"as admin, then as app", []step{asAdmin, oursStep("yes"), asApp, oursStep(noPerm), asAdmin, oursStep("yes")}},
		{"app in MULTI", []step{asAdmin, multi, appQueued, execOne, oursStep(noPerm), oursStep(noPerm), asApp,
			oursStep(noPerm)}},
		{"admin in MULTI", []step{asApp, multi, adminQueued, execOne, oursStep("yes"), asApp, oursStep(noPerm)}},
		{"app in MULTI by HELLO", []step{asAdmin, multi, helloQueued, {lab.Encode("EXEC"), "*1\r\n*14\r\n"},
			oursStep(noPerm), asApp, oursStep(noPerm)}},
		{"app in MULTI, dropped", []step{asAdmin, multi, appQueued, discard, oursStep("yes")}},
		{"admin in MULTI, dropped", []step{asApp, multi, adminQueued, discard, oursStep(noPerm)}},
		{"app in MULTI, RESET", []step{asAdmin, multi, appQueued, execOne, reset, oursStep(noAuth), asAdmin,
			oursStep("yes")}},
		{"app in MULTI, then a wrong AUTH", []step{asAdmin, multi, appQueued, execOne,
			{lab.Encode("AUTH", "no"), "-WRONGPASS"}, oursStep(noPerm)}},
		{"as admin, as app without a reply", []step{asAdmin, {skip + asApp.send, ""}, oursStep(noPerm), asAdmin,
			oursStep("yes")}},
		{"as app, as admin by a forged RESET", []step{asApp, {forged("RESET") + forged("OK") + reset.send +
			lab.Encode("AUTH", "no"), "+RESET\r\n"},
			{"", ok}, answered, {"", "-WRONGPASS"}, oursStep(noAuth), asApp, oursStep(noPerm)}},
		{"as app, SUBSCRIBE refused", []step{asApp, {listen.send, noPerm}, oursStep(noPerm)}},
		{"as admin, SUBSCRIBE, as app", []step{asAdmin, listen, unlisten, asApp, oursStep(noPerm)}},
	}
}

// On every way, every lock command is refused without authentication or without the right to
// write the key, and runs otherwise: before and after RESET, and with the AUTH in the same packet
// or an earlier one.
func TestLockCommandsAreCheckedOnEveryWay(t *testing.T) {
	t.Parallel()
	acl := aclCluster(t)
	for name, c := range map[string]struct {
		cluster *lab.Cluster
		ways    []way
	}{
		"password":       {lab.StartProtected(t), waysIn()},
		"lock-acl":       {acl, waysIn()},
		"lock-acl users": {acl, waysAsUsers()},
	} {
		for i, w := range c.ways {
			for n, command := range []string{"LOCK", "UNLOCK", "EXTEND", "LOCKINFO"} {
				for _, atOnce := range []bool{false, true} {
					if atOnce != ((i+n)%2 == 0) && !lab.IsLong() {
						continue // each way has two commands at once and two one by one
					}
					t.Run(fmt.Sprintf("%s, %s, %s, at once %v", name, w.name, command, atOnce), func(t *testing.T) {
						w.take(lab.Dial(t, c.cluster.Addr), command, fmt.Sprintf("other:%d-%s-%v-%s", i, command, atOnce, name), atOnce)
					})
				}
			}
		}
	}
}

// take plays the way with a lock command on a key of its own.
func (w way) take(host *lab.Client, command, key string, atOnce bool) {
	host.T.Helper()
	token := "0000000000000001:" + strings.Repeat("0", 40)
	sent := map[string]string{"LOCK": lab.Encode("LOCK", key, "10s"), "UNLOCK": lab.Encode("UNLOCK", key, token),
		"EXTEND": lab.Encode("EXTEND", key, token, "10s"), "LOCKINFO": lab.Encode("LOCKINFO", key)}[command]
	var all strings.Builder
	for i, s := range w.steps {
		if s.send == "OURS" {
			s.send = sent
		}
		if all.WriteString(s.send); atOnce {
			continue
		}
		host.Send(s.send)
		checkWay(host, i, s, command)
	}
	if !atOnce {
		return
	}
	host.Send(all.String())
	for i, s := range w.steps {
		checkWay(host, i, s, command)
	}
}

// checkWay reads the reply to a step and compares it with the wanted one.
func checkWay(host *lab.Client, i int, s step, command string) {
	host.T.Helper()
	if s.want == "" {
		return
	}
	got := host.Frame()
	if s.want != "yes" {
		if !strings.HasPrefix(got, s.want) {
			host.T.Fatalf("step %d, %.60q: got %.100q, want %.100q", i, s.send, got, s.want)
		}
		return
	}
	granted := lab.TokenOf(got) != "" || got == lab.Null2 || got == lab.Null3 // null: an earlier run holds the key
	if carried := map[string]bool{"LOCK": granted, "UNLOCK": got == ":0\r\n", "EXTEND": got == ":0\r\n",
		"LOCKINFO": got[0] != '-'}[command]; !carried {
		host.T.Fatalf("step %d: %s: got %.100q, want it carried out", i, command, got)
	}
}
