package conf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockproxy/plain"
)

// reservedPrefix begins the names of all other keys that lockproxy keeps on a master.
const reservedPrefix = "lockproxy:"

// Validate reports every fault of the settings, also between two of them, joined, one a line. Nil
// means that c can run.
func (c Config) Validate() error { return errors.Join(c.validate(nil)...) }

// validate skips the checks that involve a setting in bad.
func (c Config) validate(bad map[string]bool) []error {
	var faults []error
	check := func(wrong bool, names, format string, args ...any) {
		if wrong && !slices.ContainsFunc(strings.Fields(names), func(n string) bool { return bad[n] }) {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	c.checkAddresses(check)
	c.checkListenTLS(check)
	c.checkLogins(check)
	c.checkClientTLS(check)
	c.checkAdmin(check)
	c.checkDurations(check)
	c.checkAdopt(check)
	check(strings.HasPrefix(c.KeyPrefix, reservedPrefix), "key-prefix",
		"key-prefix %q begins with %q, which is kept for lockproxy's own keys", c.KeyPrefix, reservedPrefix)
	check(len(c.KeyPrefix) > 1024, "key-prefix", "key-prefix has %d bytes, more than 1024", len(c.KeyPrefix))
	check(c.MaxWaiters < 1, "max-waiters", "max-waiters %d is under 1", c.MaxWaiters)
	check(c.LockACL && c.Embedded(), "lock-acl upstream masters",
		"lock-acl on needs a real upstream: the embedded one has no users")
	check(c.InMemory && !c.Embedded(), "embedded upstream masters",
		"embedded true and upstream %s: leave one of the two out", c.Upstream)
	check(!c.LockACL && !c.LockACLUpstream.IsZero(), "lock-acl lock-acl-upstream",
		"lock-acl-upstream %s without lock-acl on", c.LockACLUpstream)
	check(c.AuditLog == "", "audit-log", "audit-log is empty: off, log or a file")
	check(slices.Contains([]string{"on", "true", "false"}, c.AuditLog), "audit-log",
		"audit-log %s: it is off, log or a file (./%[1]s for one of this name)", c.AuditLog)
	check(c.MaxClients < 1, "max-clients", "max-clients %d is under 1", c.MaxClients)
	return faults
}

type checkFunc func(wrong bool, names, format string, args ...any)

func (c Config) checkAddresses(check checkFunc) {
	check(len(c.Listen) == 0, "listen", "listen is empty")
	c.checkListeners(check, "listen", c.Listen)
	c.checkListeners(check, "adopt-listen", c.AdoptListen)
	for _, a := range c.AdoptListen {
		both := slices.ContainsFunc(c.Listen, func(b Address) bool { return sameServer(a, b) })
		check(both && !strings.HasSuffix(a.Addr, ":0"), "listen adopt-listen", "adopt-listen %s is in listen, too", a)
	}
	check(c.Upstream.Sentinel != "" && len(c.Masters) == 0, "upstream masters",
		"masters: needed with upstream %s, since locks must not move with a failover", c.Upstream)
	check(len(c.Masters) > mostMasters, "masters", "masters: %d are listed, at most %d are allowed", len(c.Masters),
		mostMasters)
	for i, a := range c.Masters {
		twice := slices.ContainsFunc(c.Masters[:i], func(b Address) bool { return sameServer(a, b) })
		check(twice, "masters", "masters: %s is listed twice", a.Name())
		named := slices.IndexFunc(c.Masters[:i], func(b Address) bool { return a.ID != "" && a.ID == b.ID })
		check(named >= 0, "masters", "masters: %s and %s have the same name", c.Masters[max(named, 0)].Name(), a.Name())
	}
}

// checkListeners checks the addresses of the setting called name, which clients connect to.
func (c Config) checkListeners(check checkFunc, name string, list []Address) {
	for i, a := range list {
		twice := slices.ContainsFunc(list[:i], func(b Address) bool { return sameServer(a, b) })
		check(twice && !strings.HasSuffix(a.Addr, ":0"), name, "%s: %s is listed twice", name, a)
		check(!a.Loopback() && c.Upstream.Password != "" && !c.AllowOpen, name+" upstream masters allow-open",
			"%s %s lets other machines use the credentials in upstream %s: listen on loopback, take the credentials "+
				"out of the address so that clients send their own AUTH, or set allow-open true", name, a, c.Upstream)
		check(!a.Loopback() && c.UpstreamLogin.PasswordFile != "" && !c.AllowOpen,
			name+" upstream masters allow-open upstream-password-file masters-password-file",
			"%s %s lets other machines use the password in upstream-password-file %q: listen on loopback, leave it out "+
				"so that clients send their own AUTH, or set allow-open true", name, a, c.UpstreamLogin.PasswordFile)
		check(!a.Loopback() && c.Embedded() && !c.AllowOpen, name+" upstream masters allow-open",
			"%s %s lets other machines use the servers in memory: listen on loopback, or set allow-open true", name, a)
		check(sameServer(a, c.Upstream), name+" upstream masters", "%s %s is the upstream %s itself", name, a, c.Upstream)
	}
}

// mostMasters bounds masters: sets of them are kept in bits of a number.
const mostMasters = 31

// year bounds max-ttl. So no sum of a few of them overflows.
const year = 8760 * time.Hour

// longestProbe bounds session-timeout. The first probe is sent after half of it, for which Linux
// takes 32,767 s at most.
const longestProbe = 18 * time.Hour

func (c Config) checkDurations(check checkFunc) {
	check(c.MinTTL <= 0, "min-ttl", "min-ttl %s is not positive", plain.Duration(c.MinTTL))
	check(c.MaxTTL <= 0, "max-ttl", "max-ttl %s is not positive", plain.Duration(c.MaxTTL))
	check(c.MaxTTL > year, "max-ttl", "max-ttl %s exceeds %s", plain.Duration(c.MaxTTL), plain.Duration(year))
	check(c.MinTTL > c.MaxTTL, "min-ttl max-ttl",
		"min-ttl %s exceeds max-ttl %s", plain.Duration(c.MinTTL), plain.Duration(c.MaxTTL))
	check(c.MasterTimeout <= 0, "master-timeout",
		"master-timeout %s is not positive", plain.Duration(c.MasterTimeout))
	check(c.QueueTimeout <= 0, "queue-timeout", "queue-timeout %s is not positive", plain.Duration(c.QueueTimeout))
	check(c.SessionMaxHold <= 0, "session-max-hold", "session-max-hold %s is not positive",
		plain.Duration(c.SessionMaxHold))
	check(c.SessionTimeout < time.Second, "session-timeout", "session-timeout %s is under 1s",
		plain.Duration(c.SessionTimeout))
	check(c.SessionTimeout > longestProbe, "session-timeout", "session-timeout %s exceeds %s",
		plain.Duration(c.SessionTimeout), plain.Duration(longestProbe))
	check(c.SessionLockDelay > c.MaxTTL, "session-lock-delay max-ttl",
		"session-lock-delay %s exceeds max-ttl %s", plain.Duration(c.SessionLockDelay), plain.Duration(c.MaxTTL))
	check(c.UpstreamDialTimeout <= 0, "upstream-dial-timeout",
		"upstream-dial-timeout %s is not positive", plain.Duration(c.UpstreamDialTimeout))
	check(c.DrainTimeout < 0, "drain-timeout", "drain-timeout %s is negative", plain.Duration(c.DrainTimeout))
}

// Warnings returns warnings about valid settings, each a lower-case sentence. The embedded default
// has none.
func (c Config) Warnings() []string {
	if c.Embedded() {
		return nil
	}
	var warnings []string
	switch n := len(c.Masters); {
	case n == 1:
		warnings = append(warnings,
			"one master: locks are lost with that server; three or five independent masters survive it")
	case n%2 == 0:
		warnings = append(warnings, fmt.Sprintf("%d masters survive no more failures than %d would: use an odd number", n,
			n-1))
	}
	if c.RestartGuard == "off" {
		warnings = append(warnings, "restart-guard off: a master that restarts without its data may grant a lock twice")
	}
	if c.AllowEviction {
		warnings = append(warnings, "allow-eviction true: a master that is short of memory may drop locks that are held")
	}
	files := map[string]string{"upstream": "upstream-password-file, ", "masters": "masters-password-file, ",
		"admin-token": "admin-token-file, "}
	for _, name := range c.FlagPasswords {
		warnings = append(warnings,
			fmt.Sprintf("%s: the password is on the command line, which every user of this machine can read: "+
				"use %sthe file or the environment", name, files[name]))
	}
	if c.UnixMode&0o007 != 0 {
		warnings = append(warnings,
			fmt.Sprintf("unix-mode %04o lets every user of this machine in, with the operator's commands", c.UnixMode))
	}
	return warnings
}
