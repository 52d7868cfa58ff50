package resp

import (
	"bytes"
	"strings"

	"lockproxy/resp/internal/scan"
)

// Groups of commands as Redis' own documentation has them (COMMAND DOCS), without those whose
// reply waits for another client or never comes: their time would not be the upstream's. Commands
// of modules have a dot in their name.
const (
	groupModule = "module"
	groupOther  = "other"
)

var commandsOfGroups = map[string]string{
	"bitmap":     "bitcount bitfield bitfield_ro bitop bitpos getbit setbit",
	"cluster":    "asking cluster readonly readwrite",
	"connection": "client echo ping select",
	"generic": "copy del dump exists expire expireat expiretime keys migrate move object persist pexpire " +
		"pexpireat pexpiretime pttl randomkey rename renamenx restore scan sort sort_ro touch ttl type " +
		"unlink",
	"geo": "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro " +
		"geosearch geosearchstore",
	"hash": "hdel hexists hexpire hexpireat hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat " +
		"hkeys hlen hmget hmset hpersist hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset " +
		"hsetex hsetnx hstrlen httl hvals",
	"hyperloglog": "pfadd pfcount pfdebug pfmerge pfselftest",
	"list": "lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim rpop rpoplpush " +
		"rpush rpushx",
	"pubsub":    "publish pubsub spublish",
	"scripting": "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script",
	"server": "acl bgrewriteaof bgsave command config dbsize debug flushall flushdb info lastsave latency " +
		"lolwut memory module role save slowlog swapdb time",
	"set": "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove " +
		"spop srandmember srem sscan sunion sunionstore",
	"sorted-set": "zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore zlexcount zmpop " +
		"zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem " +
		"zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore " +
		"zrevrank zscan zscore zunion zunionstore",
	"stream": "xack xackdel xadd xautoclaim xclaim xdel xdelex xgroup xinfo xlen xpending xrange xrevrange " +
		"xsetid xtrim",
	"string": "append decr decrby get getdel getex getrange getset incr incrby incrbyfloat lcs mget mset " +
		"msetnx psetex set setex setnx setrange strlen substr",
	"transactions": "unwatch watch",
	"": "blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin failover psync replicaof " +
		"restore-asking shutdown slaveof sync wait waitaof xread xreadgroup",
}

// groupOfCommand is the opposite of commandsOfGroups.
var groupOfCommand = func() map[string]string {
	m := map[string]string{}
	for group, list := range commandsOfGroups {
		for name := range strings.FieldsSeq(list) {
			m[name] = group
		}
	}
	return m
}()

// Groups returns the groups that Options.Timed may be called with, in no order.
func Groups() []string {
	all := []string{groupModule, groupOther}
	for group := range commandsOfGroups {
		if group != "" {
			all = append(all, group)
		}
	}
	return all
}

// groupOf returns the group of a command; empty: it is not to be timed.
func groupOf(name []byte) string {
	var low [24]byte
	if len(name) <= len(low) {
		n := copy(low[:], name)
		scan.Lower(low[:n])
		if group, known := groupOfCommand[string(low[:n])]; known {
			return group
		}
	}
	if bytes.IndexByte(name, '.') > 0 {
		return groupModule
	}
	return groupOther
}
