package conf

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"lockproxy/plain"
)

// Address is the address of a server and the credentials for it. The zero value names no server.
//
// No method prints a password: String and GoString leave credentials out, and the errors of
// ParseAddress and ParseMaster never repeat their input.
type Address struct {
	ID       string // name of a master, or empty; it is not looked up
	Network  string // "tcp", "unix" or "sentinel"
	Addr     string // host:port with IPv6 in brackets, a path, or the Sentinels, comma-separated
	User     string // ACL user; empty with a Password means the default user
	Password string // empty: no AUTH is sent
	DB       int    // database to SELECT; 0: no SELECT is sent
	TLS      bool   // for rediss://
	Sentinel string // the Sentinels' name of the master; empty: Addr is the server
}

// IsZero reports whether a names no server.
func (a Address) IsZero() bool { return a.Addr == "" }

// Name returns the server's name in logs, errors and metrics: host:port or unix:///path, preceded
// by "name@" if it has a name. For a master that Sentinels watch it is the name that they use. It
// contains no credentials and no scheme.
func (a Address) Name() string { return a.prefix() + a.place() }

// String returns the address as in a setting, without credentials.
func (a Address) String() string {
	if a.Sentinel != "" {
		return a.sentinelString()
	}
	place := a.place()
	if a.TLS {
		place = "rediss://" + place
	}
	if a.DB == 0 {
		return a.prefix() + place
	}
	if !a.TLS {
		place = "redis://" + place
	}
	return a.prefix() + place + "/" + strconv.Itoa(a.DB)
}

func (a Address) prefix() string {
	if a.ID == "" {
		return ""
	}
	return a.ID + "@"
}

func (a Address) place() string {
	switch a.Network {
	case "unix":
		return "unix://" + a.Addr
	case "sentinel":
		return a.Sentinel
	}
	return a.Addr
}

// GoString keeps %#v from printing the password.
func (a Address) GoString() string { return "conf.Address(" + a.String() + ")" }

// Host returns the host of Addr without port and brackets, or "" for a Unix socket.
func (a Address) Host() string {
	host, _, err := net.SplitHostPort(a.Addr)
	if a.Network == "unix" || err != nil {
		return ""
	}
	return host
}

// Loopback reports whether only this machine can reach the address: a Unix socket, a loopback IP,
// or localhost. It looks up no name.
func (a Address) Loopback() bool {
	if a.Network == "unix" || strings.EqualFold(a.Host(), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(a.Host())
	return err == nil && ip.IsLoopback()
}

var (
	errEmpty  = errors.New("is empty")
	errScheme = errors.New("has a scheme other than redis://, rediss:// and unix://, for the upstream also " +
		"redis+sentinel:// and rediss+sentinel://")
	errUnixPath = errors.New("needs the form unix:///path, without credentials")
	errUnixLong = errors.New("has a path of more than 107 bytes, which no Unix socket can have")
	errOptions  = errors.New("has options after '?' or '#', which are not supported (percent-encode them in a " +
		"password)")
	errCredentials = errors.New("has credentials that are not of the form user:password or :password, percent-encoded")
	errHostPort    = errors.New("is not of the form host:port (IPv6 in brackets)")
	errNoHost      = errors.New("has no host")
	errPort        = errors.New("has a port that is not a number from 1 to 65535")
	errDB          = errors.New("has a database that is not a whole number")
	errPlain       = errors.New("is not of the form host:port; credentials and database need redis://")
	errNamed       = errors.New("has a name before '@', which only masters take; credentials need redis://")
)

// ParseAddress parses the address of a server: redis://[user:password@]host:port[/db], rediss://
// (TLS), unix:///path or plain host:port. After a scheme the default port is 6379. User and
// password are percent-decoded. Errors never repeat any part of s.
func ParseAddress(s string) (Address, error) {
	a, err := parse(s)
	if err != nil {
		return Address{}, err
	}
	if a.Network == "tcp" {
		if a.Host() == "" {
			return Address{}, errNoHost
		}
		if strings.HasSuffix(a.Addr, ":0") {
			return Address{}, errPort
		}
	}
	return a, nil
}

// parseListen parses an address to listen on: host:port (no host: every interface; port 0: any
// free one), rediss://host:port or unix:///path.
func parseListen(s string) (Address, error) {
	a, err := parse(s)
	switch {
	case err != nil:
		return Address{}, err
	case a.Password != "" || a.User != "":
		return Address{}, errors.New("has credentials, which a listener does not take")
	case a.DB != 0:
		return Address{}, errors.New("has a database, which a listener does not take")
	}
	return a, nil
}

// maxUnixPath is the kernel's limit on the path of a Unix socket.
const maxUnixPath = 107

// parse is the common part of ParseAddress and parseListen.
func parse(s string) (Address, error) {
	if s == "" {
		return Address{}, errEmpty
	}
	if _, _, named := cutName(s); named {
		return Address{}, errNamed
	}
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		if strings.ContainsAny(s, "@/") {
			return Address{}, errPlain
		}
		addr, err := hostPort(s, "")
		return Address{Network: "tcp", Addr: addr}, err
	}
	switch strings.ToLower(scheme) {
	case "redis":
		return parseURL(rest, false)
	case "rediss":
		return parseURL(rest, true)
	case "unix":
		if !strings.HasPrefix(rest, "/") || len(rest) == 1 || strings.ContainsRune(rest, 0) {
			return Address{}, errUnixPath
		}
		if len(rest) > maxUnixPath {
			return Address{}, errUnixLong
		}
		return Address{Network: "unix", Addr: rest}, nil
	case "redis+sentinel", "rediss+sentinel":
		return Address{}, errSentinel
	}
	return Address{}, errScheme
}

// parseURL parses [user:password@]host[:port][/db]. It does not use net/url, whose errors repeat
// their input and whose rules for userinfo and ports differ.
func parseURL(rest string, tls bool) (Address, error) {
	a := Address{Network: "tcp", TLS: tls}
	authority, db, hasDB := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		var err error
		if a.User, a.Password, err = credentials(authority[:at]); err != nil {
			return Address{}, err
		}
		authority = authority[at+1:]
	}
	if strings.ContainsAny(authority+db, "?#") {
		return Address{}, errOptions
	}
	if hasDB && db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return Address{}, errDB
		}
		a.DB = int(n)
	}
	var err error
	a.Addr, err = hostPort(authority, "6379")
	return a, err
}

func credentials(s string) (user, password string, err error) {
	rawUser, rawPassword, found := strings.Cut(s, ":")
	if !found || rawPassword == "" {
		return "", "", errCredentials
	}
	if user, err = url.PathUnescape(rawUser); err != nil {
		return "", "", errCredentials // the cause quotes a piece of the password
	}
	if password, err = url.PathUnescape(rawPassword); err != nil {
		return "", "", errCredentials
	}
	return user, password, nil
}

// hostPort checks host:port and returns it in its usual form. With a defaultPort the port may be
// missing.
func hostPort(s, defaultPort string) (string, error) {
	if defaultPort != "" && !strings.Contains(s[strings.LastIndexByte(s, ']')+1:], ":") {
		s += ":" + defaultPort
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", errHostPort // the cause quotes the address
	}
	if strings.HasPrefix(s, "[") {
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is6() {
			return "", errHostPort
		}
	}
	if strings.ContainsFunc(host, func(r rune) bool {
		return r <= ' ' || r == 0x7f ||
			strings.ContainsRune(`,"'\@/`, r)
	}) {
		return "", errHostPort
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", errPort
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.FormatUint(n, 10)), nil
}

// mayShow reports whether errors may repeat an address, or the entries of a list: without '@' and
// any scheme with credentials there is no password in it, nor a piece of one that has a comma.
func mayShow(s string) bool {
	return !strings.ContainsAny(s, "@%") && strings.Count(s, "://") == strings.Count(s, "unix:///")
}

// NameAddress puts the address s in front of the error of its parser, unless it is empty or may
// hold a password.
func NameAddress(err error, s string) error {
	if s == "" || len(s) > 100 || !mayShow(s) || plain.Line(s) != s {
		return err
	}
	return fmt.Errorf("%q %w", s, err)
}

// sameServer compares the texts of two addresses without their credentials and databases.
func sameServer(a, b Address) bool { return a.Network == b.Network && a.Addr == b.Addr }
