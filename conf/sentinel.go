package conf

import (
	"errors"
	"strconv"
	"strings"
)

var (
	errSentinel     = errors.New("is a Sentinel address, which only the upstream takes")
	errSentinelForm = errors.New("is not of the form redis+sentinel://[user:password@]host:port,host:port/name[/db]")
	errSentinelName = errors.New("has a master's name that is not 1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-'")
)

// ParseUpstream parses the address of the upstream: one that ParseAddress accepts, or a master
// that Sentinels watch: redis+sentinel://[user:password@]host:port,host:port/name[/db]. The
// credentials are for the master. rediss+sentinel:// means TLS to the Sentinels and the master.
// The default port is 26379. Errors never repeat any part of s.
func ParseUpstream(s string) (Address, error) {
	rest, tls, ok := cutSentinel(s)
	if !ok {
		return ParseAddress(s)
	}
	hosts, path, found := strings.Cut(rest, "/")
	at := strings.LastIndexByte(hosts, '@')
	a := Address{Network: "sentinel", TLS: tls}
	if at >= 0 {
		var err error
		if a.User, a.Password, err = credentials(hosts[:at]); err != nil {
			return Address{}, err
		}
	}
	if strings.ContainsAny(hosts[at+1:]+path, "?#") {
		return Address{}, errOptions
	}
	name, db, hasDB := strings.Cut(path, "/")
	if !found || name == "" {
		return Address{}, errSentinelForm
	}
	if !validName.MatchString(name) {
		return Address{}, errSentinelName
	}
	a.Sentinel = name
	if hasDB && db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return Address{}, errDB
		}
		a.DB = int(n)
	}
	var err error
	a.Addr, err = sentinels(hosts[at+1:])
	if err != nil {
		return Address{}, err
	}
	return a, nil
}

// sentinels checks a list of host:port and returns it in its usual form.
func sentinels(list string) (string, error) {
	var addrs []string
	for item := range strings.SplitSeq(list, ",") {
		addr, err := hostPort(strings.TrimSpace(item), "26379")
		if err != nil {
			return "", err
		}
		if strings.HasPrefix(addr, ":") {
			return "", errNoHost
		}
		if strings.HasSuffix(addr, ":0") {
			return "", errPort
		}
		addrs = append(addrs, addr)
	}
	return strings.Join(addrs, ","), nil
}

// Sentinels returns the addresses of the Sentinels of the server, or nil.
func (a Address) Sentinels() []string {
	if a.Sentinel == "" {
		return nil
	}
	return strings.Split(a.Addr, ",")
}

// cutSentinel cuts the scheme of a Sentinel address.
func cutSentinel(s string) (rest string, tls, ok bool) {
	scheme, rest, _ := strings.Cut(s, "://")
	switch strings.ToLower(scheme) {
	case "redis+sentinel":
		return rest, false, true
	case "rediss+sentinel":
		return rest, true, true
	}
	return "", false, false
}

// sentinelString returns the text of a Sentinel address.
func (a Address) sentinelString() string {
	s := "redis+sentinel://"
	if a.TLS {
		s = "rediss+sentinel://"
	}
	s += a.Addr + "/" + a.Sentinel
	if a.DB != 0 {
		s += "/" + strconv.Itoa(a.DB)
	}
	return s
}
