package relay

// mask says which part of a reply is compared.
type mask uint8

const (
	maskNone  mask = iota
	maskOrder      // the elements may come in any order, nested ones too
	maskValue      // only the type of the reply is compared
	maskAny        // any reply is right
)

// special overrides the grammar for a command: calls written by hand, because random ones could
// harm or hang the server or bring in chance, and the part of its reply that is compared. A
// comment gives the reason. Words of a call are separated by blanks, calls that belong together
// by ";". PASSWORD is the right password if the state needs one.
type special struct {
	calls []string
	mask  mask
}

var specials = map[string]special{
	// The time: of day, until a key expires, since an event.
	"time": {mask: maskValue}, "lastsave": {mask: maskValue}, "ttl": {mask: maskValue}, "pttl": {mask: maskValue},
	"expiretime": {mask: maskValue}, "pexpiretime": {mask: maskValue}, "object|idletime": {mask: maskValue},
	"xpending":        {mask: maskValue},
	"xinfo|consumers": {mask: maskValue}, "xinfo|stream": {mask: maskValue}, "latency|histogram": {mask: maskValue},
	"latency|doctor": {mask: maskValue},
	"slowlog|get":    {mask: maskValue}, "slowlog|len": {mask: maskValue}, "acl|log": {mask: maskValue},

	// Connection ids and addresses.
	"client|id": {mask: maskValue}, "client|info": {mask: maskValue}, "client|list": {mask: maskValue},

	// The server's own figures, memory and files.
	"info": {mask: maskValue}, "memory|usage": {mask: maskValue}, "memory|stats": {mask: maskValue},
	"memory|doctor":       {mask: maskValue},
	"memory|malloc-stats": {mask: maskValue}, "lolwut": {mask: maskValue},

	// Chance. Commands that remove a random element get a set with one element, or the servers
	// would differ from then on.
	"acl|genpass": {mask: maskValue}, "randomkey": {mask: maskValue},
	"spop":        {calls: []string{"DEL one; SADD one x; SPOP one", "DEL one; SADD one x; SPOP one 2", "SPOP none"}},
	"srandmember": {calls: []string{"DEL one; SADD one x; SRANDMEMBER one", "DEL one; SADD one x; SRANDMEMBER one -3"}},
	"hrandfield":  {calls: []string{"DEL hone; HSET hone f v; HRANDFIELD hone 2 WITHVALUES", "HRANDFIELD none"}},
	"zrandmember": {calls: []string{"DEL zone; ZADD zone 1 m; ZRANDMEMBER zone -2 WITHSCORES", "ZRANDMEMBER none"}},

	// The order of a hash table, whose seed is random in each server.
	"keys": {mask: maskOrder}, "hgetall": {mask: maskOrder}, "hkeys": {mask: maskOrder}, "hvals": {mask: maskOrder},
	"smembers": {mask: maskOrder},
	"sinter":   {mask: maskOrder}, "sunion": {mask: maskOrder}, "sdiff": {mask: maskOrder}, "command": {mask: maskOrder},
	"command|list": {mask: maskOrder},
	"command|docs": {mask: maskOrder}, "command|info": {mask: maskOrder}, "acl|cat": {mask: maskOrder},
	"scan": {mask: maskValue}, "sscan": {mask: maskValue},
	"hscan": {mask: maskValue}, "zscan": {mask: maskValue}, "dump": {mask: maskValue}, "object|help": {mask: maskOrder},
	"config|get": {mask: maskOrder,
		calls: []string{"CONFIG GET maxmemory*", "CONFIG GET save", "CONFIG GET none"}},
	"sort": {calls: []string{"SORT list:0 ALPHA", "SORT set:0", "SORT set:0 BY nosort GET #",
		"SORT list:1 ALPHA STORE list:2", "SORT hash:0"}},

	// A child process, which may still be running.
	"save": {mask: maskAny}, "bgsave": {mask: maskAny, calls: []string{"BGSAVE", "BGSAVE SCHEDULE"}},
	"bgrewriteaof": {mask: maskAny},

	// Commands that would end, change or delay the server are called in a way that Redis refuses
	// or ignores.
	"shutdown":  {calls: []string{"SHUTDOWN ABORT", "SHUTDOWN NOW BAD"}},
	"failover":  {calls: []string{"FAILOVER", "FAILOVER ABORT"}},
	"replicaof": {calls: []string{"REPLICAOF NO ONE", "REPLICAOF x"}},
	"slaveof":   {calls: []string{"SLAVEOF NO ONE", "SLAVEOF x"}},
	"debug": {calls: []string{"DEBUG PROTOCOL attrib", "DEBUG PROTOCOL map", "DEBUG PROTOCOL bignum",
		"DEBUG PROTOCOL null", "DEBUG SLEEP 0", "DEBUG"}},
	"migrate":    {calls: []string{"MIGRATE 127.0.0.1 1 string:0 0 10", "MIGRATE 127.0.0.1 1 none 0 10"}},
	"config|set": {calls: []string{"CONFIG SET slowlog-max-len 128", "CONFIG SET none 1", "CONFIG SET maxmemory x"}},
	"pfselftest": {calls: []string{"PFSELFTEST x"}}, // PFSELFTEST takes three seconds of the server's time
	"pfdebug": {calls: []string{"PFDEBUG ENCODING hyperloglog:0", "PFDEBUG GETREG hyperloglog:1",
		"PFDEBUG none hyperloglog:0"}},
	"wait": {calls: []string{"WAIT 0 1", "WAIT 1 1", "WAIT x 1"}},
	// a success would make the connection a replica's: see TestReplicaSyncsThroughProxy
	"sync":  {calls: []string{"SYNC x"}},
	"psync": {calls: []string{"PSYNC x"}},
	"replconf": {calls: []string{"REPLCONF listening-port 6380", "REPLCONF capa eof", "REPLCONF none 1", "REPLCONF ACK 0",
		"REPLCONF GETACK *"}},
	"monitor": {calls: []string{"MONITOR", "MONITOR; PING seen"}},
	// YES starts the debugger; Redis refuses all of them if older replies wait, which depends on time
	"script|debug": {calls: []string{"SCRIPT DEBUG"}},

	// Users that each script makes for itself.
	"acl|setuser": {calls: []string{"ACL SETUSER alice on >pw ~* &* +@all", "ACL SETUSER bob on nopass +ping; AUTH bob x",
		"ACL SETUSER alice bad"}},
	"acl|deluser": {calls: []string{"ACL SETUSER carol; ACL DELUSER carol", "ACL DELUSER default", "ACL DELUSER none"}},
	"auth": {calls: []string{"AUTH wrong", "AUTH nobody x", "AUTH PASSWORD", "AUTH default PASSWORD",
		"AUTH alice pw"}},

	// Commands about the connection's own state, or about other connections, which must stay
	// untouched.
	"hello": {calls: []string{"HELLO", "HELLO 2", "HELLO 3", "HELLO 4", "HELLO 3 SETNAME me",
		"HELLO 3 AUTH default PASSWORD", "HELLO 2 AUTH nobody x", "HELLO x"}},
	"client|kill": {calls: []string{"CLIENT KILL 1.2.3.4:5", "CLIENT KILL ID 999999999", "CLIENT KILL TYPE master",
		"CLIENT KILL USER nobody"}},
	"client|pause":   {calls: []string{"CLIENT PAUSE 1", "CLIENT PAUSE 1 WRITE", "CLIENT PAUSE x"}},
	"client|unblock": {calls: []string{"CLIENT UNBLOCK 999999999", "CLIENT UNBLOCK x"}},
	"client|reply": {calls: []string{"CLIENT REPLY ON", "CLIENT REPLY OFF", "CLIENT REPLY SKIP", "CLIENT REPLY SKIP",
		"CLIENT REPLY BAD"}},
	// BCAST is left out: the number of keys in one push depends on the time between two reads of
	// the server.
	"client|tracking": {calls: []string{"CLIENT TRACKING ON", "CLIENT TRACKING OFF", "CLIENT TRACKING ON OPTIN",
		"CLIENT TRACKING ON NOLOOP",
		"CLIENT TRACKING ON REDIRECT 999999999", "CLIENT TRACKING ON PREFIX x"}},

	// With several subscriptions the confirmations would come in the order of a hash table.
	"subscribe": {calls: []string{"SUBSCRIBE a", "SUBSCRIBE a a"}}, "psubscribe": {calls: []string{"PSUBSCRIBE a*"}},
	"ssubscribe": {calls: []string{"SSUBSCRIBE s"}},
}
