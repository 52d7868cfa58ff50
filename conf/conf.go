// Package conf holds every setting of lockproxy: its name, default, form and limits. Settings come
// from a file, the environment and flags; later ones win. They are checked together, so that one
// start reports all faults. The package opens no sockets.
package conf

import (
	"io/fs"
	"time"
)

// Config is the result of Load: all settings, with defaults. It does not change after Load, so
// many goroutines may read it. Its zero value is not valid; Default is.
type Config struct {
	// Listen is where clients connect: host:port, rediss://host:port (TLS) or unix:///path. Never
	// empty.
	Listen []Address
	// Upstream is the Redis that all other commands go to. Default: the first master, with its
	// credentials.
	Upstream Address
	// InMemory asks for servers in memory, inside the process, even if other settings are given.
	// Neither Upstream nor Masters is set then.
	InMemory bool
	// Masters keep the locks. Default: the upstream alone. Only masters have an ID, each its own.
	// Upstream and Masters are empty only in the embedded default (see Embedded).
	Masters []Address

	// KeyPrefix comes before every lock's key on the masters. It may be empty.
	KeyPrefix string
	// MinTTL and MaxTTL bound the ttl a client may ask for. MaxTTL must not be under MinTTL.
	// MaxTTL is also how long a master that lost its memory does not vote, so all proxies of a
	// deployment need the same.
	MinTTL, MaxTTL time.Duration
	// MasterTimeout is how long lockproxy waits for a master's answer before it counts the master
	// as silent. Positive.
	MasterTimeout time.Duration
	// Fencing puts a number that only grows into every token.
	Fencing bool
	// RestartGuard is "on", "strict" or "off".
	RestartGuard string
	// AllowEviction lets masters vote that may evict keys, and with them locks, to save memory.
	AllowEviction bool

	// MaxWaiters is how many clients may wait for locks at a time, all keys together. At least 1.
	MaxWaiters int
	// QueueTimeout is the longest time that a LOCK without WAIT waits to be sent while the masters
	// are busy. Positive.
	QueueTimeout time.Duration
	// SessionMaxHold is how long a SESSION lock is renewed; then it runs out. Positive.
	SessionMaxHold time.Duration
	// SessionLockDelay keeps a key closed after a session ended without QUIT. Default 0: free at
	// once. It must not exceed MaxTTL, or a master that lost its memory would vote while the key
	// is still closed elsewhere.
	SessionLockDelay time.Duration
	// SessionTimeout is how long the machine of a client with a SESSION lock may be silent. At
	// least 1s, the unit of the kernel's keepalive.
	SessionTimeout time.Duration
	// AdminCommands allows LOCKPROXY LOCKS, WAITERS, WHY, RELEASE, ADMIT and INFO ADOPT on network
	// listeners, and releases by the page. Unix sockets always may.
	AdminCommands bool

	// UpstreamDialTimeout bounds connecting to the upstream, TLS and AUTH included. Positive.
	UpstreamDialTimeout time.Duration
	// MaxClients is how many clients may be connected at once. At least 1.
	MaxClients int
	// SlowClientTimeout is how long a client may leave replies unread or a command unfinished. 0:
	// without limit.
	SlowClientTimeout time.Duration
	// LockACL asks the upstream's ACL who may lock.
	LockACL bool
	// LockACLUpstream is the upstream with credentials that may run ACL DRYRUN. Zero: Upstream.
	LockACLUpstream Address
	// CommandHints adds the lock commands to the upstream's replies to COMMAND.
	CommandHints bool
	// AllowOpen accepts clients of other machines even if the upstream needs no password.
	AllowOpen bool
	// ShowMasters lets errors name the masters' addresses; otherwise they say "master 3".
	ShowMasters bool
	// TLSCert and TLSKey are files in PEM form for the rediss:// listeners and an https://
	// admin-listen. Both or neither.
	TLSCert, TLSKey string
	// TLSClientCA is a file in PEM form. If set, clients of these listeners must show a
	// certificate that one of its authorities signed.
	TLSClientCA string
	// UnixMode is the mode of the sockets of unix:// listeners. Default 0600.
	UnixMode fs.FileMode
	// ProxyProtocol makes network listeners require a PROXY header, version 1 or 2, on each
	// connection.
	ProxyProtocol bool

	// ReusePort lets other processes listen on the same ports (SO_REUSEPORT), so that a new proxy
	// can take over from this one. Linux only. Unix sockets cannot be shared.
	ReusePort bool

	// AdoptListen is where clients connect whose libraries lock by SET and scripts, in the forms of
	// Listen. Empty: nowhere.
	AdoptListen []Address
	// AdoptKeys are patterns, in the form of KEYS, of the keys that are locks for these clients.
	// Empty: every key. Only with AdoptListen.
	AdoptKeys []string
	// AdoptTTL is the ttl of a lock that such a client takes without an expiry. 0: refused. Only
	// with AdoptListen, and then from MinTTL to MaxTTL.
	AdoptTTL time.Duration

	// UpstreamLogin and MastersLogin are for the addresses of upstream and masters that have no
	// credentials. SentinelLogin is for all Sentinels.
	UpstreamLogin, SentinelLogin, MastersLogin Login
	// UpstreamTLS is for a rediss:// upstream and its Sentinels, MastersTLS for rediss:// masters.
	UpstreamTLS, MastersTLS ClientTLS
	// FlagPasswords names the settings with a password on the command line, which every user of
	// the machine can read.
	FlagPasswords []string

	// AdminListen is the address of the HTTP server for operators; with TLS it is HTTPS. IsZero:
	// none. The Network "off" means that a setting says so; then servers in memory have no page
	// either.
	AdminListen Address
	// AdminToken is the secret that operators must show: a bearer token or the password of any
	// user. AdminTokenFile is a file of one line with it. At most one of them is set; with
	// neither, operators need no token.
	AdminToken, AdminTokenFile string
	// AuditLog is the destination of log lines about LOCK, UNLOCK, RELEASE and ADMIT, without
	// tokens: "off", "log" (at any LogLevel) or a file to append to.
	AuditLog string

	// DrainTimeout bounds an orderly end. 0 ends at once.
	DrainTimeout time.Duration
	// LogLevel is "debug", "info", "warn" or "error".
	LogLevel string
	// LogFormat is "console", "json" or "auto": console on a terminal, else json.
	LogFormat string

	// Task is the action that the flags ask for: Run, Help, Check or Version.
	Action Task
}

// Login holds credentials for a server. The zero value sends no AUTH.
type Login struct {
	User         string // ACL user; empty means the default user. Needs PasswordFile
	PasswordFile string // a file of one line
}

// ClientTLS configures TLS to a server. The zero value trusts the system's authorities, checks the
// host of the address, and shows no certificate.
type ClientTLS struct {
	CA        string // file in PEM form; the only authorities trusted
	Cert, Key string // files in PEM form. Both or neither
	// the name that the server's certificate must be for; empty: the host of the address
	ServerName string
}

// whole reports whether t has both halves of a key pair, or neither. A fault is then reported
// once.
func (t ClientTLS) whole() bool { return (t.Cert == "") == (t.Key == "") }

// Task is what to do with a Config.
type Task int

// The zero Task is Run. Check ends after validating; Help and Version print and end, even if
// settings are wrong.
const (
	Run Task = iota
	Check
	Help
	Version
)

// Default returns the settings without file, environment and flags. Upstream and Masters are
// empty: Load fills each from the other, and leaves both empty for servers in memory.
func Default() Config {
	return Config{
		Listen:              []Address{{Network: "tcp", Addr: "127.0.0.1:6380"}},
		KeyPrefix:           "lock:",
		MinTTL:              10 * time.Millisecond,
		MaxTTL:              60 * time.Second,
		MasterTimeout:       50 * time.Millisecond,
		Fencing:             true,
		RestartGuard:        "on",
		MaxWaiters:          5000,
		QueueTimeout:        5 * time.Second,
		SessionMaxHold:      time.Hour,
		SessionTimeout:      10 * time.Second,
		UpstreamDialTimeout: 5 * time.Second,
		MaxClients:          10000,
		SlowClientTimeout:   5 * time.Minute,
		ShowMasters:         true,
		UnixMode:            0o600,
		AuditLog:            "off",
		DrainTimeout:        30 * time.Second,
		LogLevel:            "info",
		LogFormat:           "auto",
	}
}

// Embedded reports whether no real server is named: neither upstream nor masters are set. Then all
// servers live in memory inside the process. Load refuses a configuration in which this looks like
// a mistake.
func (c Config) Embedded() bool { return c.Upstream.IsZero() && len(c.Masters) == 0 }

// fill sets the upstream to the first master, or the masters to the upstream, if only one of the
// two is set. Credentials and TLS settings follow, unless they are set.
func (c *Config) fill() {
	if c.Upstream.IsZero() && len(c.Masters) > 0 {
		c.Upstream = c.Masters[0]
		c.Upstream.ID = ""
		if c.UpstreamLogin == (Login{}) && c.Upstream.Password == "" && c.MastersLogin.PasswordFile != "" {
			c.UpstreamLogin = c.MastersLogin
		}
		if c.UpstreamTLS == (ClientTLS{}) && c.Upstream.TLS && c.MastersTLS.whole() {
			c.UpstreamTLS = c.MastersTLS
		}
	}
	if len(c.Masters) == 0 && !c.Upstream.IsZero() && c.Upstream.Sentinel == "" {
		c.Masters = []Address{c.Upstream}
		if c.MastersLogin == (Login{}) && c.Upstream.Password == "" && c.UpstreamLogin.PasswordFile != "" {
			c.MastersLogin = c.UpstreamLogin
		}
		if c.MastersTLS == (ClientTLS{}) && c.Upstream.TLS && c.UpstreamTLS.whole() {
			c.MastersTLS = c.UpstreamTLS
		}
	}
}
