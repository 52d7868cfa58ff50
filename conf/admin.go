package conf

import (
	"errors"
	"strings"
)

// errAdminForm: the value has none of the forms that admin-listen accepts.
var errAdminForm = errors.New("is not of the form host:port, https://host:port or unix:///path")

// ParseAdmin parses an address of admin-listen: host:port, http://host:port, https://host:port
// (TLS) or unix:///path.
func ParseAdmin(s string) (Address, error) {
	scheme, rest, found := strings.Cut(s, "://")
	if !found {
		return parseListen(s)
	}
	switch strings.ToLower(scheme) {
	case "unix":
		return parseListen(s)
	case "http", "https":
		if strings.ContainsAny(rest, "/@?#") {
			return Address{}, errAdminForm
		}
		a, err := parseListen(rest)
		a.TLS = err == nil && strings.EqualFold(scheme, "https")
		return a, err
	}
	return Address{}, errAdminForm
}

// adminAddress is the value of admin-listen. "off" means none.
type adminAddress struct{ field *Address }

var _ value = adminAddress{}

func (v adminAddress) set(s string) error {
	if s == off {
		*v.field = Address{Network: off}
		return nil
	}
	a, err := ParseAdmin(s)
	if err == nil {
		*v.field = a
		return nil
	}
	return NameAddress(err, s)
}

func (v adminAddress) String() string {
	switch {
	case v.field.IsZero():
		return off
	case v.field.TLS:
		return "https://" + v.field.Addr
	}
	return v.field.String()
}

// secret is a text that is never shown.
type secret struct{ field *string }

var _ value = secret{}

func (v secret) set(s string) error {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return errors.New("is empty or has control characters")
	}
	*v.field = s
	return nil
}

func (v secret) String() string {
	if *v.field == "" {
		return ""
	}
	return "(not shown)"
}

// checkAdmin checks admin-listen and its token.
func (c Config) checkAdmin(check checkFunc) {
	a := c.AdminListen
	shown := adminAddress{&a}.String()
	for name, l := range c.listeners {
		check(!a.IsZero() && sameServer(a, l) && !strings.HasSuffix(a.Addr, ":0"), name+" admin-listen",
			"admin-listen %s is in %s, too", shown, name)
	}
	check(!a.IsZero() && !a.Loopback() && c.AdminToken == "" && c.AdminTokenFile == "" && !c.AllowOpen,
		"admin-listen admin-token admin-token-file allow-open",
		"admin-listen %s shows other machines the locks: set admin-token-file, listen on loopback, or set allow-open true",
		shown)
	check(a.TLS && (c.TLSCert == "" || c.TLSKey == ""), "admin-listen tls-cert tls-key",
		"admin-listen %s needs tls-cert and tls-key", shown)
	check(c.AdminToken != "" && c.AdminTokenFile != "", "admin-token admin-token-file",
		"admin-token is set and admin-token-file is %q: one or the other", c.AdminTokenFile)
	check(a.IsZero() && c.AdminToken != "", "admin-listen admin-token", "admin-token without admin-listen")
	check(a.IsZero() && c.AdminTokenFile != "", "admin-listen admin-token-file",
		"admin-token-file %q without admin-listen", c.AdminTokenFile)
}
