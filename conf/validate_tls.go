package conf

import "slices"

func (c Config) checkListenTLS(check checkFunc) {
	secure := c.AdminListen.TLS
	for name, a := range c.listeners {
		secure = secure || a.TLS
		check(a.TLS && (c.TLSCert == "" || c.TLSKey == ""), name+" tls-cert tls-key",
			"%s: %s needs tls-cert and tls-key", name, a)
	}
	check((c.TLSCert == "") != (c.TLSKey == ""), "tls-cert tls-key",
		"tls-cert %q and tls-key %q: both or neither", c.TLSCert, c.TLSKey)
	check(c.TLSClientCA != "" && !secure, "listen adopt-listen tls-client-ca",
		"tls-client-ca %q has no effect: listen has no rediss:// address", c.TLSClientCA)
}

func (c Config) checkLogins(check checkFunc) {
	for _, l := range []struct {
		name  string
		login Login
	}{{"upstream", c.UpstreamLogin}, {"sentinel", c.SentinelLogin}, {"masters", c.MastersLogin}} {
		user, file := l.name+"-user", l.name+"-password-file"
		check(l.login.User != "" && l.login.PasswordFile == "", user+" "+file, "%s %q needs %s", user, l.login.User, file)
	}
	check(c.UpstreamLogin.PasswordFile != "" && c.Upstream.Password != "", "upstream masters upstream-password-file",
		"upstream %s has credentials in its address, and upstream-password-file is %q: one or the other", c.Upstream,
		c.UpstreamLogin.PasswordFile)
	check(c.UpstreamLogin.PasswordFile != "" && c.Upstream.IsZero(), "upstream masters upstream-password-file",
		"upstream-password-file %q needs upstream", c.UpstreamLogin.PasswordFile)
	open := slices.ContainsFunc(c.Masters, func(a Address) bool { return a.Password == "" })
	check(c.MastersLogin.PasswordFile != "" && !open, "upstream masters masters-password-file",
		"masters-password-file %q is for masters without credentials in their addresses, and there is none",
		c.MastersLogin.PasswordFile)
	check(c.SentinelLogin.PasswordFile != "" && c.Upstream.Sentinel == "" && c.LockACLUpstream.Sentinel == "",
		"upstream lock-acl-upstream sentinel-password-file",
		"sentinel-password-file %q needs a redis+sentinel:// upstream", c.SentinelLogin.PasswordFile)
}

func (c Config) checkClientTLS(check checkFunc) {
	for _, g := range []struct {
		name string
		tls  ClientTLS
		used bool
	}{
		{"upstream", c.UpstreamTLS, c.Upstream.TLS || c.LockACLUpstream.TLS},
		{"masters", c.MastersTLS, slices.ContainsFunc(c.Masters, func(a Address) bool { return a.TLS })},
	} {
		cert, key := g.name+"-tls-cert", g.name+"-tls-key"
		check((g.tls.Cert == "") != (g.tls.Key == ""), cert+" "+key, "%s %q and %s %q: both or neither", cert, g.tls.Cert,
			key, g.tls.Key)
		for _, s := range []struct{ name, value string }{{"-tls-ca", g.tls.CA}, {"-tls-cert", g.tls.Cert},
			{"-tls-key", g.tls.Key},
			{"-tls-server-name", g.tls.ServerName}} {
			check(s.value != "" && !g.used, "upstream lock-acl-upstream masters "+g.name+s.name,
				"%s %q needs a rediss:// address in %s", g.name+s.name, s.value, g.name)
		}
	}
}
