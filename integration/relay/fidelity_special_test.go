package relay

// mask says what is left out of the comparison of a reply.
type mask uint8

const (
	maskNone  mask = iota
	maskOrder      // the elements may come in any order, nested ones too
	maskValue      // only the type of the reply counts
	maskAny        // only that there is one
)

// special is what is peculiar to a command: calls written by hand, where those by grammar could
// harm or hang the server or bring chance into play, and what of its reply is left out of the
// comparison. Reasons stand behind. The words of a call are split at blanks; calls parted by ";"
// follow each other; PASSWORD is the right one, where the state allows it.
type special struct {
	calls []string
	mask  mask
}

var specials = map[string]special{
	// The time: of day, of a key's rest, since something happened.
	"time": {mask: maskValue}, "lastsave": {mask: maskValue}, "ttl": {mask: maskValue}, "pttl": {mask: maskValue},
	"expiretime": {mask: maskValue}, "pexpiretime": {mask: maskValue}, "object|idletime": {mask: maskValue}, "xpending": {mask: maskValue},
	"xinfo|consumers": {mask: maskValue}, "xinfo|stream": {mask: maskValue}, "latency|histogram": {mask: maskValue}, "latency|doctor": {mask: maskValue},
	"slowlog|get": {mask: maskValue}, "slowlog|len": {mask: maskValue}, "acl|log": {mask: maskValue},

	// Connection ids and addresses.
	"client|id": {mask: maskValue}, "client|info": {mask: maskValue}, "client|list": {mask: maskValue},

	// The server's own numbers, memory and pictures.
	"info": {mask: maskValue}, "memory|usage": {mask: maskValue}, "memory|stats": {mask: maskValue}, "memory|doctor": {mask: maskValue},
	"memory|malloc-stats": {mask: maskValue}, "lolwut": {mask: maskValue},

	// Chance. What removes something at random gets a set with one element, or the servers would
	// differ from there on.
	"acl|genpass": {mask: maskValue}, "randomkey": {mask: maskValue},
	"spop":        {calls: []string{"DEL one; SADD one x; SPOP one", "DEL one; SADD one x; SPOP one 2", "SPOP none"}},
	"srandmember": {calls: []string{"DEL one; SADD one x; SRANDMEMBER one", "DEL one; SADD one x; SRANDMEMBER one -3"}},
	"hrandfield":  {calls: []string{"DEL hone; HSET hone f v; HRANDFIELD hone 2 WITHVALUES", "HRANDFIELD none"}},
	"zrandmember": {calls: []string{"DEL zone; ZADD zone 1 m; ZRANDMEMBER zone -2 WITHSCORES", "ZRANDMEMBER none"}},

	// The order of a hash table, whose seed is random in each server.
	"keys": {mask: maskOrder}, "hgetall": {mask: maskOrder}, "hkeys": {mask: maskOrder}, "hvals": {mask: maskOrder}, "smembers": {mask: maskOrder},
	"sinter": {mask: maskOrder}, "sunion": {mask: maskOrder}, "sdiff": {mask: maskOrder}, "command": {mask: maskOrder}, "command|list": {mask: maskOrder},
	"command|docs": {mask: maskOrder}, "command|info": {mask: maskOrder}, "acl|cat": {mask: maskOrder}, "scan": {mask: maskValue}, "sscan": {mask: maskValue},
	"hscan": {mask: maskValue}, "zscan": {mask: maskValue}, "dump": {mask: maskValue}, "object|help": {mask: maskOrder}, "config|get": {mask: maskOrder,
		calls: []string{"CONFIG GET maxmemory*", "CONFIG GET save", "CONFIG GET none"}},
	"sort": {calls: []string{"SORT list:0 ALPHA", "SORT set:0", "SORT set:0 BY nosort GET #", "SORT list:1 ALPHA STORE list:2", "SORT hash:0"}},

	// A child process, which may or may not be at work still.
	"save": {mask: maskAny}, "bgsave": {mask: maskAny, calls: []string{"BGSAVE", "BGSAVE SCHEDULE"}}, "bgrewriteaof": {mask: maskAny},

	// What would end or change the server, or hold it up, is called where it is refused or does
	// nothing.
	"shutdown": {calls: []string{"SHUTDOWN ABORT", "SHUTDOWN NOW BAD"}}, "failover": {calls: []string{"FAILOVER", "FAILOVER ABORT"}},
	"replicaof": {calls: []string{"REPLICAOF NO ONE", "REPLICAOF x"}}, "slaveof": {calls: []string{"SLAVEOF NO ONE", "SLAVEOF x"}},
	"debug":        {calls: []string{"DEBUG PROTOCOL attrib", "DEBUG PROTOCOL map", "DEBUG PROTOCOL bignum", "DEBUG PROTOCOL null", "DEBUG SLEEP 0", "DEBUG"}},
	"migrate":      {calls: []string{"MIGRATE 127.0.0.1 1 string:0 0 10", "MIGRATE 127.0.0.1 1 none 0 10"}},
	"config|set":   {calls: []string{"CONFIG SET slowlog-max-len 128", "CONFIG SET none 1", "CONFIG SET maxmemory x"}},
	"pfselftest":   {calls: []string{"PFSELFTEST x"}}, // takes three seconds of the server's time
	"pfdebug":      {calls: []string{"PFDEBUG ENCODING hyperloglog:0", "PFDEBUG GETREG hyperloglog:1", "PFDEBUG none hyperloglog:0"}},
	"wait":         {calls: []string{"WAIT 0 1", "WAIT 1 1", "WAIT x 1"}},
	"sync":         {calls: []string{"SYNC x"}}, // where they succeed the connection is a replica's: TestReplica
	"psync":        {calls: []string{"PSYNC x"}},
	"replconf":     {calls: []string{"REPLCONF listening-port 6380", "REPLCONF capa eof", "REPLCONF none 1", "REPLCONF ACK 0", "REPLCONF GETACK *"}},
	"monitor":      {calls: []string{"MONITOR", "MONITOR; PING seen"}},
	"script|debug": {calls: []string{"SCRIPT DEBUG"}}, // YES begins a talk with the debugger; all are refused if older replies wait, which depends on time

	// Users that each script makes for itself.
	"acl|setuser": {calls: []string{"ACL SETUSER alice on >pw ~* &* +@all", "ACL SETUSER bob on nopass +ping; AUTH bob x", "ACL SETUSER alice bad"}},
	"acl|deluser": {calls: []string{"ACL SETUSER carol; ACL DELUSER carol", "ACL DELUSER default", "ACL DELUSER none"}},
	"auth":        {calls: []string{"AUTH wrong", "AUTH nobody x", "AUTH PASSWORD", "AUTH default PASSWORD", "AUTH alice pw"}},

	// The connection's own state, and other connections, which must be left in peace.
	"hello":        {calls: []string{"HELLO", "HELLO 2", "HELLO 3", "HELLO 4", "HELLO 3 SETNAME me", "HELLO 3 AUTH default PASSWORD", "HELLO 2 AUTH nobody x", "HELLO x"}},
	"client|kill":  {calls: []string{"CLIENT KILL 1.2.3.4:5", "CLIENT KILL ID 999999999", "CLIENT KILL TYPE master", "CLIENT KILL USER nobody"}},
	"client|pause": {calls: []string{"CLIENT PAUSE 1", "CLIENT PAUSE 1 WRITE", "CLIENT PAUSE x"}}, "client|unblock": {calls: []string{"CLIENT UNBLOCK 999999999", "CLIENT UNBLOCK x"}},
	"client|reply": {calls: []string{"CLIENT REPLY ON", "CLIENT REPLY OFF", "CLIENT REPLY SKIP", "CLIENT REPLY SKIP", "CLIENT REPLY BAD"}},
	// BCAST is left out: how many keys come in one push is a matter of the time between two reads
	// of the server.
	"client|tracking": {calls: []string{"CLIENT TRACKING ON", "CLIENT TRACKING OFF", "CLIENT TRACKING ON OPTIN", "CLIENT TRACKING ON NOLOOP",
		"CLIENT TRACKING ON REDIRECT 999999999", "CLIENT TRACKING ON PREFIX x"}},

	// With several subscriptions the order of the confirmations would be that of a hash table.
	"subscribe": {calls: []string{"SUBSCRIBE a", "SUBSCRIBE a a"}}, "psubscribe": {calls: []string{"PSUBSCRIBE a*"}}, "ssubscribe": {calls: []string{"SSUBSCRIBE s"}},
}
