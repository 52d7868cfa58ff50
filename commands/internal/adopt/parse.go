package adopt

import (
	"bytes"
	"math"
	"strconv"
	"time"
)

// longestValue is the longest value of an adopted lock.
const longestValue = 512

// request is a request on a lock key that Parse reads.
type request struct {
	*Table
	name string
	argv [][]byte // with the name
	key  []byte   // the first lock key
}

// commands has the commands that a lock key allows, and how many arguments they have at least and
// at most, with the name; 0: no limit.
var commands = map[string]struct {
	parse       func(r *request) (LockCommand, *Refusal)
	least, most int
}{
	"set":     {(*request).set, 3, 0},
	"setnx":   {(*request).setnx, 3, 3},
	"get":     {reads(ReadValue), 2, 2},
	"exists":  {reads(ReadExists), 2, 0},
	"pttl":    {reads(ReadPTTL), 2, 2},
	"ttl":     {reads(ReadTTL), 2, 2},
	"del":     {(*request).del, 2, 0},
	"unlink":  {(*request).del, 2, 0},
	"delex":   {(*request).delex, 2, 4},
	"pexpire": {(*request).expire, 3, 0},
	"expire":  {(*request).expire, 3, 0},
	"persist": {(*request).persist, 2, 2},
	"eval":    {(*request).eval, 3, 0},
	"evalsha": {(*request).evalSHA, 3, 0},
}

// Parse reads a request that Judge has found to be Own. The error is a *Refusal. The command
// shares no memory with argv.
//
// Of a request that was not held back as a whole the last arguments may be nil, and the one before
// them cut. Then the caller must not run the command: see TooLong.
//
// LOCK and its like are not Parse's. InTransaction refuses requests inside MULTI.
func (t *Table) Parse(argv [][]byte) (LockCommand, error) {
	c, refusal := t.parse(argv)
	if refusal != nil {
		return LockCommand{}, refusal
	}
	return c, nil
}

func (t *Table) parse(argv [][]byte) (LockCommand, *Refusal) {
	name := lowerASCII(string(argv[0][:min(len(argv[0]), longestShown)]))
	key := t.lockKey(argv)
	r := request{t, name, argv, key}
	how, known := commands[name]
	switch {
	case name == "eval" && len(argv) > 2 && argv[2] == nil:
		return LockCommand{}, t.TooLong(argv)
	case !known:
		return LockCommand{}, refuseCommand(key, r.fullName())
	case len(argv) < how.least || how.most > 0 && len(argv) > how.most:
		return LockCommand{}, refuseArity(name)
	case key == nil:
		return LockCommand{}, refuseCommand(nil, name)
	}
	c, refusal := how.parse(&r)
	if refusal != nil {
		return LockCommand{}, refusal
	}
	c.Name = name
	refusal = r.setKey(&c) // not in the return statement, which may copy c before
	return c, refusal
}

// InTransaction refuses a request that Judge has found to be Own, inside MULTI.
func (t *Table) InTransaction(argv [][]byte) *Refusal {
	return refuse(t.lockKey(argv), ReasonTransaction, "not allowed in transactions")
}

// TooLong refuses a request that Judge has found to be Own, and of which only argv was held back,
// whose last argument may be cut.
func (t *Table) TooLong(argv [][]byte) *Refusal {
	name := lowerASCII(string(argv[0][:min(len(argv[0]), longestShown)]))
	var key []byte
	if at, _ := t.opts.Keys.find(argv, len(argv)); at > 0 && at < len(argv)-1 && argv[at+1] != nil { // it is whole
		key = argv[at]
	}
	switch _, known := commands[name]; {
	case name == "eval" && key == nil:
		return refuse(nil, ReasonScript, "a script of more than 64 KB")
	case !known:
		return refuseCommand(key, name)
	}
	return refuse(key, ReasonValue, "'%s' of more than 64 KB", name)
}

// lockKey returns the first lock key of a whole request, or nil.
func (t *Table) lockKey(argv [][]byte) []byte {
	at, _ := t.opts.Keys.find(argv, len(argv))
	switch {
	case at == 0:
		return nil
	case argv[at] == nil: // empty
		return []byte{}
	}
	return argv[at]
}

// fullName returns the name of the command for a refusal, with its subcommand if that decides.
func (r *request) fullName() string {
	if (r.name == "config" || r.name == "script") && len(r.argv) > 1 {
		return r.name + "|" + lowerASCII(string(r.argv[1]))
	}
	return r.name
}

func (r *request) refuse(reason Reason, format string, args ...any) *Refusal {
	return refuse(r.key, reason, format, args...)
}

// setKey sets the key of c.
func (r *request) setKey(c *LockCommand) *Refusal {
	c.Key = string(r.key)
	if r.opts.ParseKey == nil {
		return nil
	}
	key, err := r.opts.ParseKey(r.key)
	if err != nil {
		return &Refusal{Text: err.Error(), Reason: ReasonKeys, Key: printable(r.key)}
	}
	c.Key = key
	return nil
}

// oneKey refuses a command with several keys, which are the arguments from the second on.
func (r *request) oneKey() *Refusal {
	if len(r.argv) > 2 {
		return r.refuse(ReasonKeys, "one key a command")
	}
	return nil
}

// setValue sets the value of c.
func (r *request) setValue(c *LockCommand, value []byte) *Refusal {
	if len(value) == 0 || len(value) > longestValue {
		return r.refuse(ReasonValue, "a value of %d bytes, want 1 to %d", len(value), longestValue)
	}
	c.Value = string(value)
	return nil
}

func (r *request) noExpiry() *Refusal {
	return r.refuse(ReasonNoExpiry, "no expiry, add PX or EX, or set adopt-ttl")
}

// defaultTTL sets the ttl of c, which takes a lock without an expiry.
func (r *request) defaultTTL(c *LockCommand) *Refusal {
	if r.opts.TTL <= 0 {
		return r.noExpiry()
	}
	c.TTL = r.opts.TTL
	return nil
}

// parseMillis reads a number of units like Redis. It limits numbers that do not fit.
func parseMillis(arg []byte, unit time.Duration) (ms int64, ok bool) {
	n, err := strconv.ParseInt(string(arg), 10, 64)
	if err != nil || arg[0] == '+' {
		return 0, false
	}
	factor := unit.Milliseconds()
	switch {
	case n > math.MaxInt64/factor:
		return math.MaxInt64, true
	case n < math.MinInt64/factor:
		return math.MinInt64, true
	}
	return n * factor, true
}

// setTTL sets the ttl of c. releases says that a ttl of 0 or less releases the lock instead, as
// EXPIRE does.
func (r *request) setTTL(c *LockCommand, arg []byte, unit time.Duration, releases bool) *Refusal {
	ms, ok := parseMillis(arg, unit)
	longest := r.opts.MaxTTL.Milliseconds()
	switch {
	case !ok:
		return refuseNumber()
	case ms <= 0 && releases:
		c.Do, c.Add = Release, false
		return nil
	case c.Do == Refresh && ms > 0 && longest > 0 && ms <= longest,
		r.opts.ParseTTL == nil && ms > 0 && ms <= math.MaxInt64/int64(time.Millisecond):
		c.TTL = time.Duration(ms) * time.Millisecond
		return nil
	case r.opts.ParseTTL == nil:
		return &Refusal{Text: "ERR invalid expire time in '" + r.name + "' command", Reason: ReasonTTL}
	}
	ttl, err := r.opts.ParseTTL(r.name, strconv.AppendInt(nil, ms, 10))
	if err != nil {
		return &Refusal{Text: err.Error(), Reason: ReasonTTL, Key: printable(r.key)}
	}
	c.TTL = ttl
	return nil
}

// okOrNull and oneOrZero are the replies of plain commands.
var (
	okOrNull  = replies{Done: status, Renewed: status, NotHeld: null, Free: null}
	oneOrZero = replies{Done: one, Renewed: one, NotHeld: zero, Free: zero}
)

// setOptions are the options of SET.
type setOptions struct {
	nx, xx, ifEqual bool
	other           bool // an option that no lock has
	absolute        bool // EXAT, PXAT
	equal           []byte
	ttl             []byte
	unit            time.Duration // of ttl; 0: none
}

// set reads SET key value [NX | XX | IFEQ value] [EX seconds | PX milliseconds].
func (r *request) set() (c LockCommand, refusal *Refusal) {
	o, ok := readSetOptions(r.argv[3:])
	switch {
	case !ok:
		return c, refuseSyntax()
	case o.absolute:
		return c, r.refuse(ReasonCommand, "absolute times differ between machines")
	case o.other || !o.nx && !o.xx && !o.ifEqual || o.ifEqual && !bytes.Equal(o.equal, r.argv[2]):
		return c, r.refuse(ReasonCommand, "SET without NX or XX")
	}
	c = LockCommand{Do: Refresh, reply: okOrNull}
	if o.nx {
		c.Do = Take
	}
	switch {
	case o.unit > 0:
		refusal = r.setTTL(&c, o.ttl, o.unit, false)
	case o.nx:
		refusal = r.defaultTTL(&c)
	default:
		refusal = r.noExpiry()
	}
	if refusal != nil {
		return c, refusal
	}
	return c, r.setValue(&c, r.argv[2])
}

// readSetOptions reads the options of SET. It is not ok if Redis finds a syntax error.
func readSetOptions(args [][]byte) (o setOptions, ok bool) {
	conditions, times := 0, 0
	for i := 0; i < len(args); i++ {
		valued := true
		switch word := lowerASCII(string(args[i][:min(len(args[i]), longestName)])); word {
		case "nx":
			o.nx, valued = true, false
			conditions++
		case "xx":
			o.xx, valued = true, false
			conditions++
		case "ifeq":
			o.ifEqual = true
			conditions++
		case "ifne", "ifdeq", "ifdne":
			o.other = true
			conditions++
		case "get":
			o.other, valued = true, false
		case "keepttl":
			o.other, valued = true, false
			times++
		case "ex":
			o.unit = time.Second
			times++
		case "px":
			o.unit = time.Millisecond
			times++
		case "exat", "pxat":
			o.absolute = true
			times++
		default:
			return o, false
		}
		if !valued {
			continue
		}
		if i++; i == len(args) {
			return o, false
		}
		o.keep(args[i-1], args[i])
	}
	return o, conditions <= 1 && times <= 1
}

// keep keeps the value of an option.
func (o *setOptions) keep(option, value []byte) {
	switch {
	case isWord(option, "ex", "px"):
		o.ttl = value
	case isWord(option, "ifeq"):
		o.equal = value
	}
}

// setnx reads SETNX key value.
func (r *request) setnx() (LockCommand, *Refusal) {
	c := LockCommand{Do: Take, reply: oneOrZero}
	if refusal := r.defaultTTL(&c); refusal != nil {
		return c, refusal
	}
	return c, r.setValue(&c, r.argv[2])
}

// reads returns the parser of a command that reads what.
func reads(what What) func(*request) (LockCommand, *Refusal) {
	return func(r *request) (LockCommand, *Refusal) { return LockCommand{Do: Read, What: what}, r.oneKey() }
}

// del reads DEL key and UNLINK key.
func (r *request) del() (LockCommand, *Refusal) {
	return LockCommand{Do: Release, Any: true, reply: oneOrZero}, r.oneKey()
}

// delex reads DELEX key IFEQ value.
func (r *request) delex() (LockCommand, *Refusal) {
	c := LockCommand{Do: Release, reply: oneOrZero}
	if len(r.argv) != 4 || !isWord(r.argv[2], "ifeq") {
		return c, refuseCommand(r.key, "delex without ifeq")
	}
	return c, r.setValue(&c, r.argv[3])
}

// expire reads EXPIRE key seconds and PEXPIRE key milliseconds.
func (r *request) expire() (LockCommand, *Refusal) {
	c := LockCommand{Do: Refresh, Any: true, reply: oneOrZero}
	if len(r.argv) > 3 {
		return c, refuseCommand(r.key, r.name+" with "+lowerASCII(string(r.argv[3])))
	}
	unit := time.Millisecond
	if r.name == "expire" {
		unit = time.Second
	}
	return c, r.setTTL(&c, r.argv[2], unit, true)
}

func (r *request) persist() (LockCommand, *Refusal) { return LockCommand{}, r.noExpiry() }

// eval reads EVAL body 1 key [argument ...].
func (r *request) eval() (LockCommand, *Refusal) {
	if refusal := r.checkKeys(); refusal != nil {
		return LockCommand{}, refusal
	}
	return r.script(r.learn(r.argv[1]))
}

// evalSHA reads EVALSHA sha1 1 key [argument ...].
func (r *request) evalSHA() (LockCommand, *Refusal) {
	if refusal := r.checkKeys(); refusal != nil {
		return LockCommand{}, refusal
	}
	sum := lowerASCII(string(r.argv[1]))
	s, known := r.cache.get(sum)
	if !known {
		return LockCommand{}, noScript()
	}
	return r.script(sum, s)
}

// checkKeys refuses a script with other than one key.
func (r *request) checkKeys() *Refusal {
	n, err := strconv.ParseUint(string(r.argv[2]), 10, 31)
	switch {
	case err != nil:
		return &Refusal{Text: "ERR value is not an integer or out of range", Reason: ReasonCommand}
	case n > uint64(len(r.argv)-3):
		return &Refusal{Text: "ERR Number of keys can't be greater than number of args", Reason: ReasonCommand}
	case n != 1:
		return r.refuse(ReasonKeys, "one key a command")
	}
	return nil
}

// script reads the arguments of a script.
func (r *request) script(sum string, s script) (c LockCommand, refusal *Refusal) {
	if s.row == nil {
		refusal = r.refuse(ReasonScript, "unknown script %s, see docs/adopting.md", sum)
		refusal.SHA1, refusal.Form = sum, s.masked
		return c, refusal
	}
	a, args := s.row.action, r.argv[4:]
	if len(args) < max(a.value, a.ttl, a.least) {
		return c, refuseArity(r.name)
	}
	c = LockCommand{Library: s.row.source, Do: a.do, What: a.what, reply: a.reply}
	if a.value > 0 {
		if refusal = r.setValue(&c, args[a.value-1]); refusal != nil {
			return c, refusal
		}
	}
	if a.adjust != nil {
		if refusal = a.adjust(r, &c, args); refusal != nil {
			return c, refusal
		}
	}
	if a.ttl > 0 {
		refusal = r.setTTL(&c, args[a.ttl-1], a.unit, a.expires && !c.Add)
	}
	return c, refusal
}
