package relay

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockproxy/integration/lab"
)

// Servers, users and proxies of TestIdentity.

// identityUser is a user of the upstreams. The rules do not include the password.
type identityUser struct {
	name, password string
	rules          []string
}

// longName is longer than any prefix of a name that the proxy could reasonably store.
var longName = "long-" + strings.Repeat("n", 200)

// fewRights are the rights of a user who may change a connection's state, but not lock.
var fewRights = []string{"~k*", "&*", "-@all", "+lrange", "+select", "+debug", "+eval", "+ping", "+echo", "+get",
	"+set", "+client", "+multi", "+exec",
	"+discard", "+subscribe", "+unsubscribe", "+psubscribe", "+punsubscribe", "+ssubscribe", "+sunsubscribe", "+publish",
	"+monitor", "+acl|whoami"}

// identityUsers has exactly one user without the right to ACL WHOAMI, whom a refusal thus
// identifies.
var identityUsers = []identityUser{
	{"alice", "a-secret", []string{"~lock:*", "&*", "-@all", "+set", "+ping", "+eval", "+client|reply", "+multi", "+exec",
		"+acl|whoami"}},
	{"bob", "b-secret", []string{"~k*", "&*", "+@all"}},
	{"carol", "c-secret", []string{"-@all", "+acl|whoami"}},
	{nameless, "d-secret", []string{"~*", "&*", "+@all", "-acl|whoami"}},
	{"eve", "e-secret", []string{"~lock:e-*", "~k*", "&*", "+@all"}},
	{longName, "l-secret", []string{"~lock:*", "~k*", "&*", "+@all"}},
}

// nameless is the user without the right to ACL WHOAMI.
const nameless = "dave"

// identityRig is a proxy and its upstream, to which the twin of each script connects directly.
type identityRig struct {
	name     string
	server   *lab.Redis
	proxy    string
	acl      bool
	password bool            // the default user has a password, and few rights
	login    *identityUser   // whom the proxy logs in; nil: nobody
	standIn  bool            // lab.AuthFirst is between proxy and server; the twin bypasses it
	may      map[string]bool // by user and class of keys: the answer of ACL DRYRUN
	admin    map[string]bool // by user: its answer about CONFIG SET
}

// keyClasses are the prefixes of lock names, between which rights may differ.
var keyClasses = []string{"a-", "e-"}

// permits reports whether a user has the right that a lock command needs.
func (r *identityRig) permits(user string, step identityStep) bool {
	switch at := step.keyAt(); {
	case at > 0:
		return r.may[user+" "+step.args[at][:2]]
	case step.lists(): // it may list any lock; hiddenFrom says which
		return true
	}
	return r.admin[user]
}

// hiddenFrom returns the classes of keys that LOCKPROXY LOCKS must not show to a user.
func (r *identityRig) hiddenFrom(user string) (classes []string) {
	for _, class := range keyClasses {
		if !r.may[user+" "+class] {
			classes = append(classes, class)
		}
	}
	return classes
}

// identityRigs starts a proxy with and without lock-acl in front of each upstream. All have one
// master.
func identityRigs(t *testing.T) (rigs []*identityRig, master *lab.Redis) {
	t.Helper()
	master = lab.StartRedis(t)
	for _, class := range keyClasses { // LOCKPROXY LOCKS always has locks to list
		master.Must(t, "SET", "lock:"+class+"standing", "another library's", "EX", "86400")
	}
	open := []string{"--user", "default", "on", "nopass", "~*", "&*", "+@all"}
	few := append([]string{"--user", "default", "on", "nopass"}, fewRights...)
	secret := append([]string{"--user", "default", "on", ">secret"}, fewRights...)
	free := lab.StartRedis(t, withUsers(open)...)
	rigs = append(rigs, identityPair(t, "open", free, "", master)...)
	rigs = append(rigs, identityPair(t, "few rights", lab.StartRedis(t, withUsers(few)...), "", master)...)
	redis := lab.StartRedis(t, withUsers(secret)...)
	rigs = append(rigs, identityPair(t, "password", redis, "", master)...)
	rigs = append(rigs, identityPair(t, "password, stand-in", redis, lab.StartAuthFirst(t, redis.Addr).Addr, master)...)
	rigs = append(rigs, loggedInPair(t, free, master)...)
	if path := valkeyPath(); path != "" {
		valkey := lab.StartServer(t, path, withUsers(secret)...)
		if !answersPackets(t, valkey) {
			t.Logf("%s is left out: its replies to a packet differ from those to the same commands one by one", path)
			return rigs, master
		}
		rigs = append(rigs, identityPair(t, "password, valkey", valkey, "", master)...)
	}
	return rigs, master
}

// answersPackets reports whether a server answers a wrong AUTH after a right one in the same
// packet. Some development builds of Valkey do not.
func answersPackets(t *testing.T, server *lab.Redis) bool {
	t.Helper()
	c := lab.Dial(t, server.Addr)
	c.Send(lab.Encode("AUTH", "alice", "a-secret") + lab.Encode("AUTH", "bob", "wrong") + lab.Encode("PING"))
	return c.Frame() == "+OK\r\n" && strings.HasPrefix(c.Frame(), "-WRONGPASS ")
}

// withUsers adds users to a server's arguments: the identity users, an administrator (admin) and
// the proxy's own (asker).
func withUsers(args []string) []string {
	args = append(args, "--user", "admin", "on", ">admin", "~*", "&*", "+@all", "--user", "asker", "on", ">asks",
		"+acl|dryrun")
	for _, u := range identityUsers {
		args = append(append(args, "--user", u.name, "on", ">"+u.password), u.rules...)
	}
	return args
}

// loggedInPair is a pair whose proxies log in as a user with fewer rights than the default user.
func loggedInPair(t *testing.T, server, master *lab.Redis) []*identityRig {
	t.Helper()
	user := &identityUsers[slices.IndexFunc(identityUsers, func(u identityUser) bool { return u.name == "eve" })]
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(user.password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pair := identityPair(t, "logged in", server, "", master, "--upstream-user", user.name, "--upstream-password-file",
		file)
	for _, r := range pair {
		r.login = user
	}
	return pair
}

func identityPair(t *testing.T, name string, server *lab.Redis, upstream string, master *lab.Redis,
	more ...string) (pair []*identityRig) {
	t.Helper()
	desk := newDesk(t, server, "admin")
	desk.must("+OK\r\n", "DEBUG", "REPLYBUFFER", "RESIZING", "0") // otherwise chance decides which replies fit the buffer
	desk.must("", "DEL", "kq")
	desk.must(":3\r\n", "RPUSH", "kq", "message", "b", "c")
	may, admin := map[string]bool{}, map[string]bool{}
	for _, u := range append(identityUsers, identityUser{name: "default"}) {
		for _, class := range keyClasses {
			may[u.name+" "+class] = desk.ask("ACL", "DRYRUN", u.name, "SET", "lock:"+class+"x", "x") == "+OK\r\n"
		}
		admin[u.name] = desk.ask("ACL", "DRYRUN", u.name, "CONFIG", "SET", "maxmemory", "0") == "+OK\r\n"
	}
	standIn := upstream != ""
	if !standIn {
		upstream = server.Addr
	}
	for _, acl := range []bool{false, true} {
		flags := append([]string{"--upstream", upstream, "--masters", master.Addr, "--restart-guard", "off",
			"--admin-commands", "on"}, more...)
		full := name + ", no lock-acl"
		if acl {
			flags = append(flags, "--lock-acl", "on", "--lock-acl-upstream", "redis://asker:asks@"+upstream)
			full = name + ", lock-acl"
		}
		p := lab.StartProxy(t, flags...)
		first := lab.Dial(t, p.Addr)
		first.WantDo("+OK\r\n", "AUTH", "alice", "a-secret")
		lab.WaitFor(t, "first lock", lab.Patience, func() bool {
			return lab.TokenOf(first.Do("LOCK", "warm-up", "1s")) != ""
		})
		pair = append(pair, &identityRig{name: full, server: server, proxy: p.Addr, acl: acl,
			password: strings.HasPrefix(name, "password"),
			standIn:  standIn, may: may, admin: admin})
	}
	return pair
}

// desk is an administrator's connection past the proxy.
type desk struct {
	*lab.Conn
	t testing.TB
}

func newDesk(t testing.TB, server *lab.Redis, login ...string) *desk {
	t.Helper()
	c, err := lab.Connect(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	d := &desk{c, t}
	for _, name := range login {
		d.must("+OK\r\n", "AUTH", name, name)
	}
	return d
}

func (d *desk) ask(args ...string) string {
	reply, err := d.Ask(args...)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", args, err)) // the server died, which ends the test
	}
	return reply
}

func (d *desk) must(want string, args ...string) {
	if got := d.ask(args...); want != "" && got != want {
		d.t.Fatalf("%q: got %q, want %q", args, got, want)
	}
}

// settle returns when the server has answered all earlier input of other connections: it processes
// input that arrived before the first PING before it reads the second. No client may be blocked.
func (d *desk) settle() {
	d.ask("PING")
	d.ask("PING")
}

// direct is the twin's connection.
type direct struct {
	*lab.Conn
	raw    syscall.RawConn
	desk   *desk
	closed bool
}

// dialDirect connects to the rig's server, logged in as the proxy is.
func dialDirect(rig *identityRig, desk *desk) (*direct, error) {
	c, err := lab.Connect(rig.server.Addr)
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	d := &direct{Conn: c, raw: raw, desk: desk}
	if err != nil || rig.login == nil {
		return d, err
	}
	if got := d.say(lab.Encode("AUTH", rig.login.name, rig.login.password)); got != "+OK\r\n" {
		return d, fmt.Errorf("AUTH %s: got %q", rig.login.name, got)
	}
	return d, nil
}

// say sends bytes and returns all of the server's replies to them.
func (d *direct) say(text string) string {
	if d.closed {
		return ""
	}
	if err := d.Put(text); err != nil {
		d.closed = true
		return ""
	}
	d.desk.settle()
	var b strings.Builder
	buf := make([]byte, 64<<10)
	_ = d.SetReadDeadline(time.Time{})
	err := d.raw.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.Read(int(fd), buf)
			if n > 0 {
				b.Write(buf[:n])
				continue
			}
			d.closed = !errors.Is(err, syscall.EAGAIN)
			return true
		}
	})
	d.closed = d.closed || err != nil
	return b.String()
}

// framesOf splits an answer into replies, without pushes.
func framesOf(text string) (list []string) {
	r := bufio.NewReader(strings.NewReader(text))
	for {
		f, err := lab.ReadFrame(r)
		if err != nil {
			return list
		}
		if !lab.IsPush(f) {
			list = append(list, f)
		}
	}
}
