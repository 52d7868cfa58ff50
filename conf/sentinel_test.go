package conf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseUpstream(t *testing.T) {
	for text, want := range map[string]Address{
		"h:1":                             {Network: "tcp", Addr: "h:1"},
		"redis+sentinel://h:1/mymaster":   {Network: "sentinel", Addr: "h:1", Sentinel: "mymaster"},
		"redis+sentinel://A,b:2,[::1]/m":  {Network: "sentinel", Addr: "a:26379,b:2,[::1]:26379", Sentinel: "m"},
		"redis+sentinel://a:1, b:2/m/":    {Network: "sentinel", Addr: "a:1,b:2", Sentinel: "m"},
		"Redis+Sentinel://:p%2Fw@a:1/m/3": {Network: "sentinel", Addr: "a:1", Sentinel: "m", Password: "p/w", DB: 3},
		"rediss+sentinel://u:p@a:1,b:2/m/3": {Network: "sentinel", Addr: "a:1,b:2", Sentinel: "m", User: "u", Password: "p",
			DB: 3, TLS: true},
		"redis+sentinel://": {}, "redis+sentinel://a:1": {}, "redis+sentinel://a:1/": {}, "redis+sentinel:///m": {},
		"redis+sentinel://a:1,/m":  {},
		"redis+sentinel://a:1/m m": {}, "redis+sentinel://a:1/m/x": {}, "redis+sentinel://a:1/m/1/2": {},
		"redis+sentinel://u@a:1/m": {}, "redis+sentinel://:1/m": {},
		"redis+sentinel://a:0/m": {}, "redis+sentinel://a:1/m?x": {}, "sentinel://a:1/m": {},
		"m1@redis+sentinel://a:1/m": {}, "redis+sentinel://u:%zz@a:1/m": {},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := ParseUpstream(text)
			if want.IsZero() != (err != nil) || got != want {
				t.Errorf("%q: got %#v %v, want %#v", text, got, err, want)
			}
			if err != nil {
				return
			}
			again, err := ParseUpstream(got.String())
			if got.User, got.Password = "", ""; err != nil || again != got {
				t.Errorf("%q: %s reads as %#v, %v", text, got, again, err)
			}
		})
	}
	a, _ := ParseUpstream("redis+sentinel://:p@a:1,b:2/m")
	if !slices.Equal(a.Sentinels(), []string{"a:1", "b:2"}) || a.Name() != "m" {
		t.Errorf("got %q, %s", a.Sentinels(), a.Name())
	}
	for _, text := range []string{"redis+sentinel://a:1/m", "m1@redis+sentinel://a:1/m"} {
		if _, err := ParseMaster(text); err == nil || !strings.Contains(err.Error(), "only the upstream takes") {
			t.Errorf("a master %s: %v", text, err)
		}
	}
}

func TestSentinelAddressNeverPrintsItsPassword(t *testing.T) {
	for _, text := range []string{"redis+sentinel://u:s3cr3t@a:1/m m", "redis+sentinel://u:s3cr3t@a:1",
		"redis+sentinel://u:s3cr3t%zz@a:1/m",
		"redis+sentinel://u:s3cr3t@a:x/m", "redis+sentinel://s3cr3t@a:1/m", "redis+sentinel://u:s3cr3t@a:1/m/x"} {
		if _, err := ParseUpstream(text); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", text, err)
		}
	}
	a, err := ParseUpstream("rediss+sentinel://u:hush@a:1/m/1")
	if text := fmt.Sprintf("%v %+v %#v", a, a, a); err != nil || strings.Contains(text, "hush") {
		t.Error(text, err)
	}
}

// If one setting supplies both the upstream and a master, both use the same credentials and TLS
// settings.
func TestUpstreamAndMasterShareConnectionSettings(t *testing.T) {
	tls := []string{"--masters-tls-ca=ca", "--masters-tls-cert=c", "--masters-tls-key=k", "--masters-password-file=p",
		"--masters-user=u"}
	cfg := mustLoad(t, append(tls, "--masters=rediss://a:1,b:1,c:1"), nil)
	if cfg.UpstreamTLS != cfg.MastersTLS || cfg.UpstreamLogin != cfg.MastersLogin || cfg.UpstreamTLS.CA != "ca" ||
		cfg.UpstreamLogin.User != "u" {
		t.Errorf("the upstream is the first master: got %+v %+v", cfg.UpstreamTLS, cfg.UpstreamLogin)
	}
	cfg = mustLoad(t, append(tls, "--masters=redis://:p@a:1,rediss://b:1,c:1"), nil)
	if cfg.UpstreamTLS != (ClientTLS{}) || cfg.UpstreamLogin != (Login{}) {
		t.Errorf("the first master has credentials and no TLS: got %+v %+v", cfg.UpstreamTLS, cfg.UpstreamLogin)
	}
	cfg = mustLoad(t, append(tls, "--masters=rediss://a:1,b:1,c:1", "--upstream=d:1"), nil)
	if cfg.UpstreamTLS != (ClientTLS{}) || cfg.UpstreamLogin != (Login{}) {
		t.Errorf("an upstream of its own: got %+v %+v", cfg.UpstreamTLS, cfg.UpstreamLogin)
	}
	cfg = mustLoad(t, []string{"--upstream=rediss://d:1", "--upstream-password-file=p", "--upstream-tls-server-name=x"},
		nil)
	if cfg.MastersTLS.ServerName != "x" || cfg.MastersLogin.PasswordFile != "p" {
		t.Errorf("the master is the upstream: got %+v %+v", cfg.MastersTLS, cfg.MastersLogin)
	}
}

func TestConnectionFaults(t *testing.T) {
	for args, want := range map[string]string{
		"--upstream=h:1 --upstream-user=u": `upstream-user "u" needs upstream-password-file`,
		"--upstream=redis://:p@h:1 --upstream-password-file=f": "upstream h:1 has credentials in its address, " +
			"and upstream-password-file is \"f\": one or the other",
		"--upstream-password-file=f": `upstream-password-file "f" needs upstream`,
		"--masters=redis://:p@h:1 --masters-password-file=f": `masters-password-file "f" is for masters without ` +
			`credentials in their addresses, and there is none`,
		"--masters-password-file=f": `masters-password-file "f" is for masters without credentials in their ` +
			`addresses, and there is none`,
		"--upstream=h:1 --sentinel-password-file=f": `sentinel-password-file "f" needs a redis+sentinel:// ` +
			`upstream`,
		"--upstream=h:1 --upstream-tls-ca=f": `upstream-tls-ca "f" needs a rediss:// address in upstream`,
		"--upstream=rediss://h:1 --upstream-tls-cert=f": `upstream-tls-cert "f" and upstream-tls-key "": both or ` +
			`neither`,
		"--masters=a:1,b:1,c:1 --masters-tls-server-name=x": `masters-tls-server-name "x" needs a rediss:// address ` +
			`in masters`,
		"--masters=rediss://a:1,b:1,c:1 --masters-tls-key=x": `masters-tls-cert "" and masters-tls-key "x": both or neither`,
		"--tls-client-ca=f": `tls-client-ca "f" has no effect: listen has no rediss:// ` +
			`address`,
		"--upstream=redis+sentinel://a:1/m": "masters: needed with upstream " +
			"redis+sentinel://a:1/m, since locks must not move with a failover",
		"--unix-mode=0888": `unix-mode: "0888" is not a mode of three octal digits, such as 600 or 0660`,
		"--unix-mode=4600": `unix-mode: "4600" is not a mode of three octal digits, such as 600 or 0660`,
		"--listen=:1 --upstream=h:1 --upstream-password-file=f": "listen :1 lets other machines use the password " +
			"in upstream-password-file \"f\": listen on loopback, leave it out so that clients send their own AUTH, or set " +
			"allow-open true",
		"--masters=redis+sentinel://a:1/m --upstream=h:1": "masters: is a Sentinel address, which only the " +
			"upstream takes",
		"--upstream=redis+sentinel://a:1/m --masters=redis+sentinel:x": `masters: "redis+sentinel:x" has a port that ` +
			`is not a number from 1 to 65535`,
	} {
		t.Run(args, func(t *testing.T) {
			_, err := Load(strings.Fields(args), serverless(strings.Fields(args), nil))
			if err == nil || err.Error() != want {
				t.Errorf("%s:\ngot  %v\nwant %s", args, err, want)
			}
		})
	}
}

func TestPasswordFlagsAreWarnedOf(t *testing.T) {
	const flag = ": the password is on the command line, which every user of this machine can read: use "
	for _, c := range []struct {
		args, environ []string
		want          string
	}{
		{[]string{"--masters=a:1,b:1,redis://:p@c:1"}, nil,
			"masters" + flag + "masters-password-file, the file or the environment"},
		{[]string{"--upstream=redis://:p@u:1", "--masters=a:1,b:1,c:1"}, nil,
			"upstream" + flag + "upstream-password-file, the file or the environment"},
		{[]string{"--masters=a:1,b:1,c:1"}, []string{"LOCKPROXY_UPSTREAM=redis://:p@u:1"}, ""},
		{[]string{"--masters=a:1,b:1,c:1", "--lock-acl", "--lock-acl-upstream=redis://:p@u:1"}, nil,
			"lock-acl-upstream" + flag + "the file or the environment"},
		{[]string{"--masters=a:1,b:1,c:1", "--unix-mode=0666"}, nil,
			"unix-mode 0666 lets every user of this machine in, with the operator's commands"},
		{[]string{"--masters=a:1,b:1,c:1", "--unix-mode=660"}, nil, ""},
	} {
		t.Run(strings.Join(append(c.args, c.environ...), " "), func(t *testing.T) {
			if got := strings.Join(mustLoad(t, c.args, c.environ).Warnings(), "\n"); got != c.want {
				t.Errorf("%q: got %q, want %q", c.args, got, c.want)
			}
		})
	}
}
