package commands

// helpLines begin the reply to LOCKPROXY HELP, in the form of Redis' own HELP subcommands.
// lockHelp follows.
var helpLines = []string{
	"LOCKPROXY <subcommand> [<arg> ...]. Subcommands are:",
	"HELP",
	"    Print this help.",
	"INFO [ADOPT]",
	"    Version, uptime, connections and counters, as text. ADOPT: how many keys at the upstream",
	"    match adopt-keys. Needs admin-commands on a network listener.",
	"MASTERS",
	"    How each master stands, as an array of maps.",
	"LOCKS <cursor> [MATCH <pattern>] [COUNT <n>]",
	"    Page through the locks, as SCAN does. Needs admin-commands on a network listener.",
	"WAITERS <key>",
	"    The clients of this proxy that wait for a lock, in order, as an array of maps. Needs",
	"    admin-commands on a network listener.",
	"WHY <key>",
	"    Who holds a lock and who waits for it, also without a quorum, as JSON. Needs",
	"    admin-commands on a network listener.",
	"RELEASE <key>",
	"    Free a lock whoever holds it. Needs admin-commands on a network listener.",
	"ADMIT <master> [FORCE]",
	"    Let a master of other proxies join these, or one in quarantine vote without the",
	"    counters of those that are gone. It is called as MASTERS calls it, or by its name,",
	"    host:port or place: master 3. FORCE: although proxies with other settings are",
	"    connected to it. Needs admin-commands on a network listener.",
}

// lockHelp is the reply to LOCK HELP.
var lockHelp = []string{
	"Lock commands are:",
	"LOCK <key> <ttl> [KEYS <n> <key> ...] [SHARED | LIMIT <n>] [WAIT <timeout>] [SESSION] [OWNER <label>] [FULL]",
	"    Lock a key. Replies a token, or null while others hold it. Times are 500, 500ms, 30s,",
	"    1m30s or 1h; a bare number is milliseconds. KEYS: n more keys, all or none. SHARED: beside",
	"    other SHARED ones. LIMIT: beside n-1 others. WAIT: in a queue, 0 is without limit.",
	"    SESSION: renewed until the connection ends. FULL: token, fence and validity, slot.",
	"UNLOCK <key> <token> [KEYS <n> <key> ...] [KEEP <ttl>]",
	"    Release a lock: 1, or 0 if the token does not hold it. KEEP: closed for ttl from now.",
	"EXTEND <key> <token> <ttl> [KEYS <n> <key> ...] [SHARED] [SESSION] [FULL]",
	"    Hold a lock for ttl from now: 1, or 0 if it is lost. SHARED: let others share it.",
	"    SESSION: renewed until this connection ends, from now on.",
	"LOCKINFO <key> [SINCE <fence> [WAIT <timeout>]]",
	"    Who holds a lock, or null. With WAIT: as soon as the fence is another than this one.",
}
