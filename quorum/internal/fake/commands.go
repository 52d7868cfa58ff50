package fake

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"lockproxy/quorum/internal/wire"
)

// command is a Redis command on the keyspace. Its arguments do not include the name.
type command struct {
	least, most int  // arguments; most is -1 for any number
	write       bool // Redis' flag: MISCONF, READONLY and OOM may refuse it
	grows       bool // Redis' flag denyoom: an OOM refuses it
	do          func(m *Master, db *Memory, args []string) wire.Reply
}

// commands holds exactly the commands that the scripts call. A script that calls another one fails
// here, and on a master whose user has only the documented rights.
var commands map[string]command

func init() {
	commands = map[string]command{
		"GET":           {1, 1, false, false, doGet},
		"SET":           {2, -1, true, true, doSet},
		"GETRANGE":      {3, 3, false, false, doGetRange},
		"SETRANGE":      {3, 3, true, true, doSetRange},
		"DEL":           {1, -1, true, false, doDel},
		"TYPE":          {1, 1, false, false, doType},
		"PTTL":          {1, 1, false, false, doPTTL},
		"PEXPIRE":       {2, 2, true, false, doPExpire},
		"PEXPIREAT":     {2, 2, true, false, doPExpireAt},
		"ZADD":          {3, -1, true, true, doZAdd},
		"ZREM":          {2, -1, true, false, doZRem},
		"ZSCORE":        {2, 2, false, false, doZScore},
		"ZCOUNT":        {3, 3, false, false, doZCount},
		"ZREVRANGE":     {3, 4, false, false, doZRevRange},
		"ZRANGEBYSCORE": {3, -1, false, false, doZRangeByScore},
		"HGET":          {2, 2, false, false, doHGet},
		"HMGET":         {2, -1, false, false, doHMGet},
		"HSET":          {3, -1, true, true, doHSet},
		"HDEL":          {2, -1, true, false, doHDel},
		"HLEN":          {1, 1, false, false, doHLen},
		"HGETALL":       {1, 1, false, false, doHGetAll},
		"TIME":          {0, 0, false, false, doTime},
		"PUBLISH":       {2, 2, false, false, doPublish},
		"PUBSUB":        {1, -1, false, false, doPubSub},
	}
}

// commandOf finds a command by its name in any case.
func commandOf(name string) (command, bool) {
	c, ok := commands[name]
	if !ok {
		c, ok = commands[strings.ToUpper(name)]
	}
	return c, ok
}

// takes reports whether the command takes so many arguments.
func (c *command) takes(n int) bool { return n >= c.least && (c.most < 0 || n <= c.most) }

// Replies.

var (
	nothing   = wire.Reply{Kind: '$', Null: true}
	done      = wire.Reply{Kind: '+', Text: "OK"}
	wrongType = refuse("WRONGTYPE Operation against a key holding the wrong kind of value")
	syntax    = refuse("ERR syntax error")
	noInteger = refuse("ERR value is not an integer or out of range")
)

func refuse(text string) wire.Reply      { return wire.Reply{Kind: '-', Text: text} }
func text(s string) wire.Reply           { return wire.Reply{Kind: '$', Text: s} }
func number(n int64) wire.Reply          { return wire.Reply{Kind: ':', Int: n} }
func list(elems []wire.Reply) wire.Reply { return wire.Reply{Kind: '*', Elems: elems} }
func textOr(s string, ok bool) wire.Reply {
	if !ok {
		return nothing
	}
	return text(s)
}

// Strings and expiry.

func doGet(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeString)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nothing
	}
	return text(v.text)
}

// doSet is SET key value [NX|XX] [PX ms|KEEPTTL].
func doSet(_ *Master, db *Memory, args []string) wire.Reply {
	key, nx, xx, keep, end := args[0], false, false, false, int64(0)
	for rest := args[2:]; len(rest) > 0; rest = rest[1:] {
		switch option := strings.ToUpper(rest[0]); {
		case option == "NX" && !xx:
			nx = true
		case option == "XX" && !nx:
			xx = true
		case option == "KEEPTTL" && end == 0:
			keep = true
		case option == "PX" && !keep && end == 0 && len(rest) > 1:
			n, err := strconv.ParseInt(rest[1], 10, 64)
			now := db.now.UnixMilli()
			if err != nil {
				return noInteger
			} else if n <= 0 || n > math.MaxInt64-now {
				return refuse("ERR invalid expire time in 'set' command")
			}
			end, rest = now+n, rest[1:]
		default:
			return syntax
		}
	}
	old := db.get(key)
	if nx && old != nil || xx && old == nil {
		return nothing
	}
	if keep && old != nil {
		end = old.end
	}
	db.keys[key] = &value{kind: typeString, text: args[1], end: end}
	return done
}

func doGetRange(_ *Master, db *Memory, args []string) wire.Reply {
	from, err := strconv.Atoi(args[1])
	to, err2 := strconv.Atoi(args[2])
	if err != nil || err2 != nil {
		return noInteger
	}
	v, ok := db.getAs(args[0], typeString)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return text("")
	}
	if n := len(v.text); to < 0 && (from >= 0 || from <= to) {
		to = max(to+n, 0) // -9 of "abc" is 0 here, unlike in sorted sets
	}
	from, to = span(from, to, len(v.text))
	return text(v.text[from:to])
}

// span converts a range in Redis' notation to [from, to) of n elements. A negative index counts
// from the end.
func span(first, last, n int) (from, to int) {
	if first < 0 {
		first = max(first+n, 0)
	}
	if last < 0 {
		last += n
	}
	last = min(last, n-1)
	if first > last {
		return 0, 0
	}
	return first, last + 1
}

func doSetRange(_ *Master, db *Memory, args []string) wire.Reply {
	at, err := strconv.Atoi(args[1])
	switch {
	case err != nil:
		return noInteger
	case at < 0:
		return refuse("ERR offset is out of range")
	}
	v, ok := db.getAs(args[0], typeString)
	switch {
	case !ok:
		return wrongType
	case v == nil && args[2] == "":
		return number(0)
	case v == nil:
		v, _ = db.make(args[0], typeString)
	}
	if args[2] != "" {
		b := []byte(v.text)
		if missing := at + len(args[2]) - len(b); missing > 0 {
			b = append(b, make([]byte, missing)...)
		}
		copy(b[at:], args[2])
		v.text = string(b)
	}
	return number(int64(len(v.text)))
}

func doDel(_ *Master, db *Memory, args []string) wire.Reply {
	n := int64(0)
	for _, key := range args {
		if db.get(key) != nil {
			delete(db.keys, key)
			n++
		}
	}
	return number(n)
}

func doType(_ *Master, db *Memory, args []string) wire.Reply {
	if v := db.get(args[0]); v != nil {
		return wire.Reply{Kind: '+', Text: v.kind}
	}
	return wire.Reply{Kind: '+', Text: "none"}
}

func doPTTL(_ *Master, db *Memory, args []string) wire.Reply {
	switch v := db.get(args[0]); {
	case v == nil:
		return number(-2)
	case v.end == 0:
		return number(-1)
	default:
		return number(v.end - db.now.UnixMilli())
	}
}

func doPExpire(_ *Master, db *Memory, args []string) wire.Reply {
	n, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return noInteger
	}
	now := db.now.UnixMilli()
	if n > math.MaxInt64-now {
		return refuse("ERR invalid expire time in 'pexpire' command")
	}
	return db.expire(args[0], now+n)
}

func doPExpireAt(_ *Master, db *Memory, args []string) wire.Reply {
	end, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return noInteger
	}
	return db.expire(args[0], end)
}

// expire deletes the key at once if its end is not in the future.
func (m *Memory) expire(key string, end int64) wire.Reply {
	v := m.get(key)
	switch {
	case v == nil:
		return number(0)
	case end <= m.now.UnixMilli():
		delete(m.keys, key)
	default:
		v.end = end
	}
	return number(1)
}

// Sorted sets.

// doZAdd is ZADD key [NX|XX] [GT|LT] [CH] score member ...
func doZAdd(_ *Master, db *Memory, args []string) wire.Reply {
	options, rest := parseZAdd(args[1:])
	switch {
	case len(rest) == 0 || len(rest)%2 == 1:
		return syntax
	case options.nx && options.xx:
		return refuse("ERR XX and NX options at the same time are not compatible")
	case options.gt && options.nx || options.lt && options.nx || options.gt && options.lt:
		return refuse("ERR GT, LT, and/or NX options at the same time are not compatible")
	}
	scores := make([]float64, 0, len(rest)/2)
	for i := 0; i < len(rest); i += 2 {
		score, ok := parseScore(rest[i])
		if !ok {
			return refuse("ERR value is not a valid float")
		}
		scores = append(scores, score)
	}
	v, ok := db.getAs(args[0], typeZSet)
	switch {
	case !ok:
		return wrongType
	case v == nil && options.xx:
		return number(0)
	case v == nil:
		v, _ = db.make(args[0], typeZSet)
	}
	n := int64(0)
	for i, score := range scores {
		name := rest[2*i+1]
		if old, had := v.set.scores[name]; options.apply(old, score, had) {
			v.set.add(name, score)
			if !had || options.ch {
				n++
			}
		}
	}
	return number(n)
}

// zaddOptions are those of ZADD.
type zaddOptions struct{ nx, xx, gt, lt, ch bool }

// parseZAdd cuts the options off.
func parseZAdd(args []string) (o zaddOptions, rest []string) {
	for i, word := range args {
		switch strings.ToUpper(word) {
		case "NX":
			o.nx = true
		case "XX":
			o.xx = true
		case "GT":
			o.gt = true
		case "LT":
			o.lt = true
		case "CH":
			o.ch = true
		default:
			return o, args[i:]
		}
	}
	return o, nil
}

// apply reports whether a member gets a new score. had is false for a member that is not there.
func (o *zaddOptions) apply(old, score float64, had bool) bool {
	switch {
	case !had:
		return !o.xx
	case o.nx || o.gt && score <= old || o.lt && score >= old:
		return false
	}
	return score != old
}

// parseScore reads a score: a number, inf, +inf or -inf.
func parseScore(s string) (float64, bool) {
	if s == "" || strings.ContainsAny(s, "_ ") {
		return 0, false
	}
	score, err := strconv.ParseFloat(s, 64)
	return score, err == nil && !math.IsNaN(score)
}

// numberText is a number as C's %.<digits>g writes it: Redis with 17 digits, Lua with 14.
func numberText(n float64, digits int) string {
	switch {
	case math.IsInf(n, 1):
		return "inf"
	case math.IsInf(n, -1):
		return "-inf"
	case n == math.Trunc(n) && math.Abs(n) < 1e14 && n != 0:
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(n, 'g', digits, 64)
}

func doZRem(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeZSet)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return number(0)
	}
	n := int64(0)
	for _, name := range args[1:] {
		if v.set.remove(name) {
			n++
		}
	}
	if len(v.set.sorted) == 0 {
		delete(db.keys, args[0])
	}
	return number(n)
}

func doZScore(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeZSet)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nothing
	}
	score, ok := v.set.scores[args[1]]
	return textOr(numberText(score, 17), ok)
}

func doZCount(_ *Master, db *Memory, args []string) wire.Reply {
	low, ok := parseBound(args[1])
	high, ok2 := parseBound(args[2])
	if !ok || !ok2 {
		return noBound
	}
	v, ok := db.getAs(args[0], typeZSet)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return number(0)
	}
	return number(int64(len(v.set.between(low, high))))
}

var noBound = refuse("ERR min or max is not a float")

// parseBound reads one end of a range of scores: a score, or (score to exclude the score itself.
func parseBound(s string) (b bound, ok bool) {
	s, b.open = strings.CutPrefix(s, "(")
	b.score, ok = parseScore(s)
	return b, ok
}

// doZRevRange is ZREVRANGE key start stop [WITHSCORES].
func doZRevRange(_ *Master, db *Memory, args []string) wire.Reply {
	first, err := strconv.Atoi(args[1])
	last, err2 := strconv.Atoi(args[2])
	with := len(args) == 4
	switch {
	case err != nil || err2 != nil:
		return noInteger
	case with && !strings.EqualFold(args[3], "WITHSCORES"):
		return syntax
	}
	v, ok := db.getAs(args[0], typeZSet)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return list(nil)
	}
	n := len(v.set.sorted)
	from, to := span(first, last, n)
	some := slices.Clone(v.set.sorted[n-to : n-from])
	slices.Reverse(some)
	return members(some, with)
}

func members(some []member, withScores bool) wire.Reply {
	elems := make([]wire.Reply, 0, 2*len(some))
	for _, m := range some {
		elems = append(elems, text(m.name))
		if withScores {
			elems = append(elems, text(numberText(m.score, 17)))
		}
	}
	return list(elems)
}

// doZRangeByScore is ZRANGEBYSCORE key min max [WITHSCORES] [LIMIT offset count].
func doZRangeByScore(_ *Master, db *Memory, args []string) wire.Reply {
	low, ok := parseBound(args[1])
	high, ok2 := parseBound(args[2])
	if !ok || !ok2 {
		return noBound
	}
	with, offset, count := false, 0, -1
	for rest := args[3:]; len(rest) > 0; rest = rest[1:] {
		switch option := strings.ToUpper(rest[0]); {
		case option == "WITHSCORES":
			with = true
		case option == "LIMIT" && len(rest) > 2:
			var err, err2 error
			offset, err = strconv.Atoi(rest[1])
			count, err2 = strconv.Atoi(rest[2])
			if err != nil || err2 != nil {
				return noInteger
			}
			rest = rest[2:]
		default:
			return syntax
		}
	}
	v, ok := db.getAs(args[0], typeZSet)
	switch {
	case !ok:
		return wrongType
	case v == nil || offset < 0:
		return list(nil)
	}
	some := v.set.between(low, high)
	some = some[min(offset, len(some)):]
	if count >= 0 {
		some = some[:min(count, len(some))]
	}
	return members(some, with)
}

// Hashes.

func doHGet(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeHash)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return nothing
	}
	return textOr(v.hash.get(args[1]))
}

func doHMGet(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeHash)
	if !ok {
		return wrongType
	}
	elems := make([]wire.Reply, 0, len(args)-1)
	for _, name := range args[1:] {
		r := nothing
		if v != nil {
			r = textOr(v.hash.get(name))
		}
		elems = append(elems, r)
	}
	return list(elems)
}

func doHSet(_ *Master, db *Memory, args []string) wire.Reply {
	if len(args)%2 == 0 {
		return refuse("ERR wrong number of arguments for 'hset' command")
	}
	v, ok := db.make(args[0], typeHash)
	if !ok {
		return wrongType
	}
	n := int64(0)
	for i := 1; i < len(args); i += 2 {
		if v.hash.set(args[i], args[i+1]) {
			n++
		}
	}
	return number(n)
}

func doHDel(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeHash)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return number(0)
	}
	n := int64(0)
	for _, name := range args[1:] {
		if v.hash.remove(name) {
			n++
		}
	}
	if len(v.hash.fields) == 0 {
		delete(db.keys, args[0])
	}
	return number(n)
}

func doHLen(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeHash)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return number(0)
	}
	return number(int64(len(v.hash.fields)))
}

func doHGetAll(_ *Master, db *Memory, args []string) wire.Reply {
	v, ok := db.getAs(args[0], typeHash)
	switch {
	case !ok:
		return wrongType
	case v == nil:
		return list(nil)
	}
	elems := make([]wire.Reply, 0, 2*len(v.hash.fields))
	for _, f := range v.hash.fields {
		elems = append(elems, text(f.name), text(f.text))
	}
	return list(elems)
}

// Clock and channels.

func doTime(_ *Master, db *Memory, _ []string) wire.Reply {
	seconds, micros := db.now.Unix(), int64(db.now.Nanosecond()/1000)
	return list([]wire.Reply{text(strconv.FormatInt(seconds, 10)), text(strconv.FormatInt(micros, 10))})
}

func doPublish(m *Master, _ *Memory, args []string) wire.Reply {
	return number(m.publishLocked(args[0], args[1]))
}

// doPubSub is PUBSUB NUMSUB.
func doPubSub(m *Master, _ *Memory, args []string) wire.Reply {
	if !strings.EqualFold(args[0], "NUMSUB") {
		return refuse("ERR unknown subcommand '" + args[0] + "'. Try PUBSUB HELP.")
	}
	elems := make([]wire.Reply, 0, 2*len(args))
	for _, channel := range args[1:] {
		elems = append(elems, text(channel), number(int64(len(m.subs[channel]))))
	}
	return list(elems)
}
