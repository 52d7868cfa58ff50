package fake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command is one command as hooks see it.
type Command struct {
	Name string // "PING", "CLIENT ID", "INFO server", "packet", "probe", "learn", "admit", "NOSCRIPT"
	Args []string
	Ops  []Op // of a packet
}

// Is reports whether the command has that name, or is a packet with an operation of that name.
func (c *Command) Is(name string) bool {
	if c.Name == name {
		return true
	}
	for i := range c.Ops {
		if c.Ops[i].Name == name {
			return true
		}
	}
	return false
}

// Run carries out one command of a connection. Without ok the master has closed the connection.
func (m *Master) Run(c *Conn, args []string) (reply []byte, ok bool) {
	m.mu.Lock()
	cmd, sc := m.parseLocked(args)
	hook := m.Hook
	m.mu.Unlock()
	instead := ""
	if hook != nil {
		var delay time.Duration
		if delay, instead = hook(&cmd); delay > 0 {
			time.Sleep(delay)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case c.killed:
		return nil, false
	case cmd.Name == "AUTH":
		if c.authed = args[len(args)-1] == m.Password; !c.authed {
			return []byte("-WRONGPASS invalid username-password pair\r\n"), true
		}
	case !c.authed:
		return []byte("-NOAUTH Authentication required.\r\n"), true
	}
	if instead != "" {
		return []byte(instead), true
	}
	if sc.run != nil && m.forbidsLocked(args) {
		return []byte("-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"), true
	}
	m.noteLocked(&cmd)
	if sc.run != nil {
		if strings.EqualFold(args[0], "EVAL") { // one that is refused does not load its script
			m.scripts[sc.sha] = sc
		}
		return sc.run(m, m.dbLocked(c.db), &cmd), true
	}
	return []byte(m.plainLocked(c, &cmd)), true
}

// forbidsLocked reports whether the user may not use one of the keys that a call of a script names.
func (m *Master) forbidsLocked(args []string) bool {
	if m.Forbids == nil {
		return false
	}
	keys, _ := strconv.Atoi(args[2])
	return slices.ContainsFunc(args[3:3+keys], m.Forbids)
}

func (m *Master) noteLocked(cmd *Command) {
	if m.Quiet {
		return
	}
	m.log = append(m.log, cmd.Name)
	for i := range cmd.Ops {
		m.log = append(m.log, cmd.Ops[i].Name+" "+cmd.Ops[i].Key)
	}
}

// Parse reads a call of one of the scripts; known is false for any other command.
func Parse(args []string) (cmd Command, known bool) {
	var sc script
	switch strings.ToUpper(args[0]) {
	case "EVAL":
		sc = bodies[args[1]]
	case "EVALSHA":
		sc = digests[args[1]]
	}
	if sc.run == nil {
		return cmd, false
	}
	cmd = Command{Name: sc.name, Args: args}
	if sc.name == "packet" {
		cmd.Ops = ParseOps(args)
	}
	return cmd, true
}

// parseLocked names a command. A script that the master does not know is the command NOSCRIPT.
func (m *Master) parseLocked(args []string) (cmd Command, sc script) {
	cmd.Name, cmd.Args = strings.ToUpper(args[0]), args
	switch cmd.Name {
	case "EVAL":
		sc = bodies[args[1]]
		if sc.run == nil {
			panic("fake: unknown script " + args[1])
		}
	case "EVALSHA":
		known, ok := m.scripts[args[1]]
		if !ok {
			cmd.Name = "NOSCRIPT"
			return cmd, sc
		}
		sc = known
	case "CLIENT", "SCRIPT", "CONFIG", "INFO":
		cmd.Name = strings.Join(args[:min(2, len(args))], " ")
	}
	if sc.run != nil {
		cmd.Name = sc.name
		if sc.name == "packet" {
			cmd.Ops = ParseOps(args)
		}
	}
	return cmd, sc
}

// plainLocked carries out a command that is no script.
func (m *Master) plainLocked(c *Conn, cmd *Command) string {
	args := cmd.Args
	switch name, _, _ := strings.Cut(cmd.Name, " "); name {
	case "PING":
		return "+PONG\r\n"
	case "CLIENT":
		return m.clientLocked(c, cmd)
	case "INFO":
		section := ""
		if len(args) > 1 {
			section = args[1]
		}
		return bulk(m.infoLocked(section))
	case "CONFIG":
		return m.configLocked(cmd)
	case "SCRIPT":
		return m.scriptLocked(cmd)
	case "NOSCRIPT":
		return "-NOSCRIPT No matching script. Please use EVAL.\r\n"
	case "SELECT":
		c.db, _ = strconv.Atoi(args[1])
	case "HSET", "HGET":
		return m.hashLocked(c, args)
	case "SWAPDB":
		a, _ := strconv.Atoi(args[1])
		b, _ := strconv.Atoi(args[2])
		m.SwapLocked(a, b)
	case "FLUSHALL":
		m.FlushLocked()
	case "SUBSCRIBE", "UNSUBSCRIBE":
		return m.subscribeLocked(c, name, args[1:])
	case "AUTH":
	default:
		return fmt.Sprintf("-ERR unknown command '%s'\r\n", args[0])
	}
	return "+OK\r\n"
}

func (m *Master) clientLocked(c *Conn, cmd *Command) string {
	switch cmd.Name {
	case "CLIENT ID":
		return integer(c.ID)
	case "CLIENT SETNAME":
		c.Name = cmd.Args[2]
	case "CLIENT KILL":
		old := m.conns[int64(number(cmd.Args[3]))]
		if old == nil {
			return integer(0)
		}
		m.forgetLocked(old)
		old.close()
		return integer(1)
	}
	return "+OK\r\n"
}

func (m *Master) configLocked(cmd *Command) string {
	switch cmd.Name {
	case "CONFIG GET":
		var text strings.Builder
		fmt.Fprintf(&text, "*%d\r\n", 2*len(m.Config))
		for name, value := range m.Config {
			text.WriteString(bulk(name) + bulk(value))
		}
		return text.String()
	case "CONFIG RESETSTAT":
		m.ResetStatLocked()
	}
	return "+OK\r\n"
}

func (m *Master) scriptLocked(cmd *Command) string {
	switch cmd.Name {
	case "SCRIPT LOAD":
		sc, ok := bodies[cmd.Args[2]]
		if !ok {
			panic("fake: unknown script " + cmd.Args[2])
		}
		m.scripts[sc.sha] = sc
		return bulk(sc.sha)
	case "SCRIPT FLUSH":
		clear(m.scripts)
	}
	return "+OK\r\n"
}

// hashLocked is HSET and HGET of a hash that is not the state.
func (m *Master) hashLocked(c *Conn, args []string) string {
	db := m.dbLocked(c.db)
	if args[0] == "HGET" {
		value, ok := db.Hashes[args[1]][args[2]]
		if !ok {
			return null
		}
		return bulk(value)
	}
	if err := m.deniesLocked(true, false); err != "" {
		return failure(err)
	}
	hash := db.Hashes[args[1]]
	if hash == nil {
		hash = map[string]string{}
		db.Hashes[args[1]] = hash
	}
	added := int64(0)
	for i := 2; i+1 < len(args); i += 2 {
		if _, ok := hash[args[i]]; !ok {
			added++
		}
		hash[args[i]] = args[i+1]
	}
	return integer(added)
}

// deniesLocked is why a command that writes fails. takes says that it takes memory; dirty, that
// the script it runs in has written already, after which Redis does not look at the memory any
// more.
func (m *Master) deniesLocked(takes, dirty bool) string {
	if strings.HasPrefix(m.Denied, "OOM") && (!takes || dirty) {
		return ""
	}
	return m.Denied
}

// sectionOf says in which section of INFO a fact stands.
var sectionOf = map[string]string{
	"redis_version": "server", "redis_mode": "server", "server_mode": "server", "valkey_version": "server", "server_name": "server", "run_id": "server",
	"role": "replication", "connected_slaves": "replication",
	"maxmemory": "memory", "maxmemory_policy": "memory",
	"evicted_keys": "stats",
	"aof_enabled":  "persistence", "aof_rewrite_in_progress": "persistence", "aof_rewrite_scheduled": "persistence", "aof_last_write_status": "persistence",
}

// infoLocked is INFO: one section, or all.
func (m *Master) infoLocked(section string) string {
	section = strings.ToLower(section)
	var text strings.Builder
	for _, name := range []string{"server", "replication", "memory", "stats", "persistence"} {
		if section != "" && section != name {
			continue
		}
		fmt.Fprintf(&text, "# %s\r\n", name)
		switch name {
		case "server":
			fmt.Fprintf(&text, "redis_mode:%s\r\nrun_id:%s\r\n", m.Mode, m.RunID)
		case "replication":
			fmt.Fprintf(&text, "role:%s\r\n", m.Role)
		}
		for fact, value := range m.Facts {
			if sectionOf[fact] == name || sectionOf[fact] == "" && name == "server" {
				fmt.Fprintf(&text, "%s:%s\r\n", fact, value)
			}
		}
	}
	return text.String()
}

// subscribeLocked is SUBSCRIBE and UNSUBSCRIBE, in RESP2.
func (m *Master) subscribeLocked(c *Conn, name string, channels []string) string {
	var text strings.Builder
	for _, channel := range channels {
		if m.subs[channel] == nil {
			m.subs[channel] = map[*Conn]bool{}
		}
		if name == "SUBSCRIBE" {
			m.subs[channel][c] = true
		} else {
			delete(m.subs[channel], c)
		}
		text.WriteString("*3\r\n" + bulk(strings.ToLower(name)) + bulk(channel) + integer(1))
	}
	return text.String()
}

// publishLocked tells those who have subscribed; where there is none nothing is published.
func (m *Master) publishLocked(channel, message string) {
	if len(m.subs[channel]) == 0 {
		return
	}
	m.published = append(m.published, channel+" "+message)
	for c := range m.subs[channel] {
		if c.out != nil {
			_, _ = c.out.Write([]byte("*3\r\n" + bulk("message") + bulk(channel) + bulk(message)))
		}
	}
}

const null = "$-1\r\n"

func bulk(s string) string   { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
func integer(n int64) string { return ":" + strconv.FormatInt(n, 10) + "\r\n" }

// failureOr is an error, or n where there is none.
func failureOr(err string, n int64) string {
	if err != "" {
		return failure(err)
	}
	return integer(n)
}
func failure(s string) string { return "-" + s + "\r\n" }
func count(n uint64) string   { return strconv.FormatUint(n, 10) }
