package conf

import (
	"strings"

	"lockproxy/plain"
)

// settingRow is one row of the table that drives file, environment, flags, --help and
// docs/reference/settings.md.
type settingRow struct {
	name    string
	live    bool // live or restart: when a change takes effect
	help    string
	unset   string // shown as the default if that has no text
	valueOf func(*Config) value
}

const (
	live    = true  // at once, on reload
	restart = false // at the next start
)

// table lists every setting once, in the order of --help.
var table = []settingRow{
	{"listen", restart, "where clients connect: host:port, rediss://host:port (TLS), unix:///path", "",
		func(c *Config) value { return addresses{&c.Listen, parseListen} }},
	{"upstream", restart, "serves all other commands: host:port, redis[s]://[user:password@]host:port[/db], unix://, " +
		"redis+sentinel://",
		"first master", func(c *Config) value { return address{&c.Upstream} }},
	{"masters", restart, "servers that keep the locks, comma-separated, as upstream or name@address; an odd number, " +
		"independent",
		"the upstream alone", func(c *Config) value { return addresses{&c.Masters, ParseMaster} }},
	{"embedded", restart, "keep all servers in memory, for trying out; without any setting that is the default", "",
		func(c *Config) value { return boolean{&c.InMemory, "true", "false"} }},
	{"key-prefix", restart, "comes before every lock's key on the masters", "",
		func(c *Config) value { return text{&c.KeyPrefix} }},
	{"min-ttl", live, "shortest ttl a client may ask for", "",
		func(c *Config) value { return duration{&c.MinTTL} }},
	{"max-ttl", restart, "longest ttl a client may ask for; the same in all proxies of a deployment", "",
		func(c *Config) value { return duration{&c.MaxTTL} }},
	{"master-timeout", restart, "a master that has not answered for this long counts as silent", "",
		func(c *Config) value { return duration{&c.MasterTimeout} }},
	{"fencing", restart, "number every token so that a later holder's is greater", "",
		func(c *Config) value { return boolean{&c.Fencing, "on", "off"} }},
	{"restart-guard", restart, "keep a master that lost its memory out of the vote: on, strict or off", "",
		func(c *Config) value { return choice{&c.RestartGuard, []string{"on", "strict", "off"}} }},
	{"allow-eviction", restart, "let masters vote that may evict keys to save memory", "",
		func(c *Config) value { return boolean{&c.AllowEviction, "true", "false"} }},
	{"max-waiters", live, "clients that may wait for locks at a time, all keys together; more get LOCKQUEUEFULL", "",
		func(c *Config) value { return number{&c.MaxWaiters} }},
	{"queue-timeout", restart,
		"longest time that a LOCK without WAIT waits for busy masters before it is sent; then TRYAGAIN", "",
		func(c *Config) value { return duration{&c.QueueTimeout} }},
	{"session-max-hold", live, "how long a SESSION lock is renewed", "",
		func(c *Config) value { return duration{&c.SessionMaxHold} }},
	{"session-lock-delay", live,
		"how long a SESSION lock stays closed after a connection ended without QUIT; at most max-ttl", "",
		func(c *Config) value { return duration{&c.SessionLockDelay} }},
	{"session-timeout", live, "disconnect a SESSION client after this much silence; 1s to 18h", "",
		func(c *Config) value { return duration{&c.SessionTimeout} }},
	{"admin-commands", live, "allow LOCKPROXY LOCKS, WAITERS, WHY, RELEASE, ADMIT and the page's releases on " +
		"the network; Unix sockets always may", "",
		func(c *Config) value { return boolean{&c.AdminCommands, "on", "off"} }},
	{"upstream-dial-timeout", restart, "how long connecting to the upstream may take, TLS and AUTH included", "",
		func(c *Config) value { return duration{&c.UpstreamDialTimeout} }},
	{"max-clients", live, "clients connected at once; more are refused. A low limit on open files lowers it", "",
		func(c *Config) value { return number{&c.MaxClients} }},
	{"slow-client-timeout", restart,
		"how long a client may take no reply that waits for it, or leave a command unfinished; 0s: for ever", "",
		func(c *Config) value { return duration{&c.SlowClientTimeout} }},
	{"lock-acl", restart, "ask the upstream whether the connection's user may SET the lock's key (ACL DRYRUN, Redis 7)",
		"",
		func(c *Config) value { return boolean{&c.LockACL, "on", "off"} }},
	{"lock-acl-upstream", restart, "the upstream with credentials that may run ACL DRYRUN, in the forms of upstream",
		"the upstream",
		func(c *Config) value { return address{&c.LockACLUpstream} }},
	{"command-hints", restart, "add the lock commands to the upstream's replies to COMMAND, for the hints of redis-cli",
		"", func(c *Config) value { return boolean{&c.CommandHints, "on", "off"} }},
	{"allow-open", restart, "accept remote clients even if the upstream needs no password", "",
		func(c *Config) value { return boolean{&c.AllowOpen, "true", "false"} }},
	{"show-masters", live, "name the masters' addresses in errors", "",
		func(c *Config) value { return boolean{&c.ShowMasters, "true", "false"} }},
	{"tls-cert", live, "certificate file (PEM) for rediss:// listeners", "none",
		func(c *Config) value { return text{&c.TLSCert} }},
	{"tls-key", live, "private key file (PEM) for rediss:// listeners", "none",
		func(c *Config) value { return text{&c.TLSKey} }},
	{"tls-client-ca", live,
		"authorities file (PEM): clients of rediss:// listeners must show a certificate signed by one", "none",
		func(c *Config) value { return text{&c.TLSClientCA} }},
	{"unix-mode", restart, "mode of the sockets of unix:// listeners", "",
		func(c *Config) value { return mode{&c.UnixMode} }},
	{"proxy-protocol", restart, "expect a PROXY header, version 1 or 2, on every connection of network listeners", "",
		func(c *Config) value { return boolean{&c.ProxyProtocol, "on", "off"} }},
	{"reuse-port", restart, "let another lockproxy listen on the same ports, to take over while this one drains (Linux)",
		"",
		func(c *Config) value { return boolean{&c.ReusePort, "true", "false"} }},
	{"adopt-listen", restart, "where clients connect whose libraries lock by SET and scripts, in the forms of listen",
		"off",
		func(c *Config) value { return listeners{addresses{&c.AdoptListen, parseListen}} }},
	{"adopt-keys", restart, "keys that are locks at adopt-listen: patterns of KEYS, comma-separated; the same in all " +
		"proxies of a deployment", "*",
		func(c *Config) value { return patterns{&c.AdoptKeys} }},
	{"adopt-ttl", restart, "ttl of a lock that is taken at adopt-listen without an expiry, from min-ttl to max-ttl; " +
		"off: refused", "",
		func(c *Config) value { return optionalDuration{&c.AdoptTTL} }},
	{"upstream-user", restart, "user for an upstream address without credentials", "the default user",
		func(c *Config) value { return text{&c.UpstreamLogin.User} }},
	{"upstream-password-file", restart, "file with the password for an upstream address without credentials", "none",
		func(c *Config) value { return text{&c.UpstreamLogin.PasswordFile} }},
	{"upstream-tls-ca", restart, "authorities file (PEM) that a rediss:// upstream and its Sentinels are verified with",
		"the system's",
		func(c *Config) value { return text{&c.UpstreamTLS.CA} }},
	{"upstream-tls-cert", restart, "certificate file (PEM) shown to a rediss:// upstream", "none",
		func(c *Config) value { return text{&c.UpstreamTLS.Cert} }},
	{"upstream-tls-key", restart, "private key file (PEM) of upstream-tls-cert", "none",
		func(c *Config) value { return text{&c.UpstreamTLS.Key} }},
	{"upstream-tls-server-name", restart, "name that the upstream's certificate must be for", "the host of the address",
		func(c *Config) value { return text{&c.UpstreamTLS.ServerName} }},
	{"sentinel-user", restart, "user for the Sentinels of a redis+sentinel:// upstream", "the default user",
		func(c *Config) value { return text{&c.SentinelLogin.User} }},
	{"sentinel-password-file", restart, "file with the password for the Sentinels", "none",
		func(c *Config) value { return text{&c.SentinelLogin.PasswordFile} }},
	{"masters-user", restart, "user for masters' addresses without credentials", "the default user",
		func(c *Config) value { return text{&c.MastersLogin.User} }},
	{"masters-password-file", restart, "file with the password for masters' addresses without credentials", "none",
		func(c *Config) value { return text{&c.MastersLogin.PasswordFile} }},
	{"masters-tls-ca", restart, "authorities file (PEM) that rediss:// masters are verified with", "the system's",
		func(c *Config) value { return text{&c.MastersTLS.CA} }},
	{"masters-tls-cert", restart, "certificate file (PEM) shown to rediss:// masters", "none",
		func(c *Config) value { return text{&c.MastersTLS.Cert} }},
	{"masters-tls-key", restart, "private key file (PEM) of masters-tls-cert", "none",
		func(c *Config) value { return text{&c.MastersTLS.Key} }},
	{"masters-tls-server-name", restart, "name that the masters' certificates must be for", "the host of the address",
		func(c *Config) value { return text{&c.MastersTLS.ServerName} }},
	{"admin-listen", restart, "where operators are served by HTTP (metrics, health, a page): host:port, " +
		"https://host:port (TLS), unix:///path", "",
		func(c *Config) value { return adminAddress{&c.AdminListen} }},
	{"admin-token", restart, "what admin-listen asks for, as a bearer token or as the password of any user; better " +
		"from the file below", "none",
		func(c *Config) value { return secret{&c.AdminToken} }},
	{"admin-token-file", restart, "file with the admin-token", "none",
		func(c *Config) value { return text{&c.AdminTokenFile} }},
	{"audit-log", restart, "where LOCK, UNLOCK, RELEASE and ADMIT are logged, without tokens: off, log (among the " +
		"other lines) or a file", "",
		func(c *Config) value { return text{&c.AuditLog} }},
	{"drain-timeout", live, "hard limit on an orderly end", "",
		func(c *Config) value { return duration{&c.DrainTimeout} }},
	{"log-level", live, "debug, info, warn or error", "",
		func(c *Config) value { return choice{&c.LogLevel, []string{"debug", "info", "warn", "error"}} }},
	{"log-format", restart, "console, json or auto (console on a terminal, else json)", "",
		func(c *Config) value { return choice{&c.LogFormat, []string{"auto", "console", "json"}} }},
}

// suggest returns the end of an error about an unknown name: the nearest setting, in the form that
// shown gives it, or nothing.
func suggest(wrote string, shown func(settingRow) string) string {
	names := make([]string, 0, len(table)+1)
	for _, s := range table {
		names = append(names, shown(s))
	}
	if near := plain.Nearest(wrote, names); near != "" {
		return ": did you mean " + near + "?"
	}
	return ""
}

// lookup finds a setting by its name.
func lookup(name string) (settingRow, bool) {
	for _, s := range table {
		if s.name == name {
			return s, true
		}
	}
	return settingRow{}, false
}

// environment is the name of the variable that sets s: LOCKPROXY_MAX_TTL for max-ttl.
func (s settingRow) environment() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// Setting describes one setting for --help, and for the test that compares
// docs/reference/settings.md with the table.
type Setting struct {
	Name        string // as in the file; the flag is "--" + Name
	Environment string // the variable that sets it
	Default     string // in words if it depends on other settings
	Help        string // one line
}

// Settings returns every setting, in the order of --help.
func Settings() []Setting {
	defaults := Default()
	rows := make([]Setting, 0, len(table))
	for _, s := range table {
		shown := s.valueOf(&defaults).String()
		if shown == "" {
			shown = s.unset
		}
		rows = append(rows, Setting{s.name, s.environment(), shown, s.help})
	}
	return rows
}

// Changed returns the names and values, in the form of Values, of the settings that differ from
// Default.
func (c Config) Changed() map[string]string {
	changed := map[string]string{}
	for _, change := range Changes(Default(), c) {
		changed[change.Name] = change.To
	}
	return changed
}

// Values returns every setting's name and value as text, without passwords.
func (c Config) Values() map[string]string {
	values := make(map[string]string, len(table))
	for _, s := range table {
		values[s.name] = s.valueOf(&c).String()
	}
	return values
}
