package fake

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"lockproxy/quorum/internal/wire"
)

// Command is one command as hooks see it.
type Command struct {
	Name string // "PING", "CLIENT ID", "INFO server", "packet", "probe", "learn", "admit", "NOSCRIPT"
	Args []string
	Ops  []Op // of a packet
}

// Call is a command that a script calls.
type Call struct {
	By    *Command // the script's
	Args  []string // the command's words; the second is the key, if it has one
	Write bool
}

// Key is the key of the command, or the first; empty without one.
func (c *Call) Key() string {
	if len(c.Args) < 2 {
		return ""
	}
	return c.Args[1]
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

// noKey is the refusal of a script that names a forbidden key.
const noKey = "NOPERM this user has no permissions to access one of the keys used as arguments"

// Run carries out one command of a connection. Without ok the master has closed the connection.
func (m *Master) Run(c *Conn, args []string) (reply []byte, ok bool) {
	m.mu.Lock()
	cmd, sc := m.scripts.parse(args)
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
	name, lacks := strings.ToLower(args[0]), m.lacks(args)
	switch {
	case lacks != "":
		return appendReply(nil, refuse("NOPERM this user has no permissions to run the '"+lacks+"' command")), true
	case sc != nil && m.forbids(args):
		return appendReply(nil, refuse(noKey)), true
	}
	m.note(&cmd)
	db := m.dbLocked(c.db)
	db.begin()
	if sc != nil {
		if name == "eval" { // one that is refused does not load its script
			m.scripts[sc.sha] = sc
		}
		return m.runLocked(db, sc, &cmd), true
	}
	if cmd.Name == "SUBSCRIBE" || cmd.Name == "UNSUBSCRIBE" {
		return m.subs.subscribe(c, cmd.Name, args[1:]), true
	}
	return appendReply(nil, m.plainLocked(c, db, &cmd)), true
}

// Parse reads a call of one of the scripts of package wire; known is false for any other command.
func Parse(args []string) (cmd Command, known bool) {
	if len(args) < 3 {
		return cmd, false
	}
	sc := shipped(args[0], args[1])
	if sc == nil {
		return cmd, false
	}
	return sc.call(args), true
}

// call is a call of the script.
func (sc *script) call(args []string) Command {
	cmd := Command{Name: sc.name, Args: args}
	if sc.name == "packet" {
		cmd.Ops = ParseOps(args)
	}
	return cmd
}

// scriptCache is the scripts that a master knows, by digest.
type scriptCache map[string]*script

// parse names a command. A script that the master does not know is the command NOSCRIPT.
func (s scriptCache) parse(args []string) (cmd Command, sc *script) {
	cmd.Name, cmd.Args = strings.ToUpper(args[0]), args
	switch cmd.Name {
	case "EVAL":
		sc = addScript(otherScript, args[1])
	case "EVALSHA":
		if sc = s[args[1]]; sc == nil {
			cmd.Name = "NOSCRIPT"
			return cmd, nil
		}
	case "CLIENT", "SCRIPT", "CONFIG", "INFO":
		cmd.Name = strings.Join(args[:min(2, len(args))], " ")
	}
	if sc != nil {
		cmd = sc.call(args)
	}
	return cmd, sc
}

// command is SCRIPT.
func (s scriptCache) command(cmd *Command) wire.Reply {
	switch cmd.Name {
	case "SCRIPT LOAD":
		sc := addScript(otherScript, cmd.Args[2])
		s[sc.sha] = sc
		return text(sc.sha)
	case "SCRIPT FLUSH":
		clear(s)
	}
	return done
}

// plainLocked carries out a command that is no script.
func (m *Master) plainLocked(c *Conn, db *Memory, cmd *Command) wire.Reply {
	args := cmd.Args
	if known, ok := commandOf(args[0]); ok {
		if !known.takes(len(args) - 1) {
			return refuse("ERR wrong number of arguments for '" + strings.ToLower(args[0]) + "' command")
		}
		if err := m.denies(&known); known.write && err != "" {
			return refuse(err)
		}
		return known.do(m, db, args[1:])
	}
	switch name, _, _ := strings.Cut(cmd.Name, " "); name {
	case "PING":
		return wire.Reply{Kind: '+', Text: "PONG"}
	case "CLIENT":
		return m.clientLocked(c, cmd)
	case "INFO":
		section := ""
		if len(args) > 1 {
			section = args[1]
		}
		return text(m.info(section))
	case "CONFIG":
		return m.config(cmd)
	case "SCRIPT":
		return m.scripts.command(cmd)
	case "NOSCRIPT":
		return refuse("NOSCRIPT No matching script. Please use EVAL.")
	case "SELECT":
		c.db, _ = strconv.Atoi(args[1])
	case "SWAPDB":
		a, _ := strconv.Atoi(args[1])
		b, _ := strconv.Atoi(args[2])
		m.SwapLocked(a, b)
	case "FLUSHALL":
		m.FlushLocked()
	case "AUTH":
	default:
		return refuse(fmt.Sprintf("ERR unknown command '%s'", args[0]))
	}
	return done
}

func (m *Master) clientLocked(c *Conn, cmd *Command) wire.Reply {
	switch cmd.Name {
	case "CLIENT ID":
		return number(c.ID)
	case "CLIENT SETNAME":
		c.Name = cmd.Args[2]
	case "CLIENT KILL":
		id, _ := strconv.ParseInt(cmd.Args[3], 10, 64)
		old := m.conns[id]
		if old == nil {
			return number(0)
		}
		m.forgetLocked(old)
		old.close()
		return number(1)
	}
	return done
}

// subscribers are the connections that subscribe to a channel, by channel.
type subscribers map[string]map[*Conn]bool

// subscribe is SUBSCRIBE and UNSUBSCRIBE, which answer once for each channel.
func (s subscribers) subscribe(c *Conn, name string, channels []string) (b []byte) {
	for _, channel := range channels {
		if s[channel] == nil {
			s[channel] = map[*Conn]bool{}
		}
		if name == "SUBSCRIBE" {
			s[channel][c] = true
		} else {
			delete(s[channel], c)
		}
		b = appendReply(b, list([]wire.Reply{text(strings.ToLower(name)), text(channel), number(1)}))
	}
	return b
}

// forget ends the subscriptions of a connection.
func (s subscribers) forget(c *Conn) {
	for _, conns := range s {
		delete(conns, c)
	}
}

// publishLocked sends a message to the subscribers and returns their number. Without subscribers
// it does not note the message.
func (m *Master) publishLocked(channel, message string) int64 {
	subs := m.subs[channel]
	if len(subs) == 0 {
		return 0
	}
	m.published = append(m.published, channel+" "+message)
	push := appendReply(nil, list([]wire.Reply{text("message"), text(channel), text(message)}))
	for c := range subs {
		if c.out != nil {
			_, _ = c.out.Write(push)
		}
	}
	return int64(len(subs))
}
