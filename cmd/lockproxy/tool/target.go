package tool

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"lockproxy/conf"
	"lockproxy/plain"
)

// dialTimeout bounds connecting to a proxy, TLS and AUTH included.
const dialTimeout = 5 * time.Second

// answerTimeout bounds the wait for the answer to a command, in addition to the time that the
// command itself waits. It is more than the default of queue-timeout.
const answerTimeout = 10 * time.Second

// target is the proxies and the credentials of the flags that all subcommands share.
type target struct {
	addrs                     []string // as given; each may be a list
	user, passwordFile        string
	ca, cert, key, serverName string
	nobody                    bool // never log in
	operator                  bool // send LOCKPROXY only, which needs no login on a Unix socket
	https                     bool // --proxies has an https:// address, which uses the flags for TLS
}

// targetFlags defines the flags that name the proxy.
func targetFlags(flags *flag.FlagSet) *target {
	t := &target{}
	flags.Func("addr", "the proxy, in the forms of listen; several, comma-separated or each with --addr, "+
		"are tried in turn (default: LOCKPROXY_ADDR, then 127.0.0.1:6380)", func(s string) error {
		t.addrs = append(t.addrs, s)
		return nil
	})
	flags.StringVar(&t.user, "user", "", "user to log in as; needs --password-file")
	flags.StringVar(&t.passwordFile, "password-file", "", "file of one line with the password to log in with")
	flags.StringVar(&t.ca, "tls-ca", "",
		"authorities file (PEM) that a rediss:// proxy is verified with; else the system's")
	flags.StringVar(&t.cert, "tls-cert", "", "certificate file (PEM) shown to a rediss:// proxy")
	flags.StringVar(&t.key, "tls-key", "", "private key file (PEM) of --tls-cert")
	flags.StringVar(&t.serverName, "tls-server-name", "",
		"name that the proxy's certificate must be for; else the host of the address")
	return t
}

// errDenied means that the proxy refuses the user.
var errDenied = errors.New("refused")

// errFull means that the proxy or the upstream takes no more clients.
var errFull = errors.New("full")

const fullText = "ERR max number of clients"

// flagError is a fault in the flags that name the proxy.
type flagError struct{ error }

// connectCode returns the exit code for an error of connect.
func connectCode(err error) int {
	if _, wrong := errors.AsType[flagError](err); wrong {
		return exitUsage
	}
	if errors.Is(err, errDenied) {
		return exitDenied
	}
	return exitUnavailable
}

// connect connects to the first proxy that can be reached, and logs in. With resp3 it speaks RESP3
// if the proxy can: the proxy must ask its upstream for that, and lock commands need no upstream.
func (t *invocation) connect(ctx context.Context, target *target, resp3 bool) (*client, error) {
	addresses, err := t.addresses(target)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, address := range addresses {
		c, err := target.dial(ctx, address, resp3)
		if err == nil {
			return c, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", address.Name(), plain.Error(err)))
	}
	return nil, errors.Join(errs...)
}

// addresses returns the proxies to try, at least one. Its errors are flagErrors.
func (t *invocation) addresses(target *target) (all []conf.Address, err error) {
	if target.user != "" && target.passwordFile == "" {
		return nil, flagError{errors.New("--user needs --password-file")}
	}
	list := strings.Join(target.addrs, ",")
	if list == "" {
		list = t.variable("LOCKPROXY_ADDR")
	}
	if list == "" {
		list = "127.0.0.1:6380"
	}
	for text := range strings.SplitSeq(list, ",") {
		address, err := conf.ParseAddress(strings.TrimSpace(text))
		if err != nil {
			return nil, flagError{fmt.Errorf("--addr: %w", conf.NameAddress(err, strings.TrimSpace(text)))}
		}
		all = append(all, address)
	}
	overTLS := slices.ContainsFunc(all, func(a conf.Address) bool { return a.TLS })
	if err := target.checkTLS(target.https || overTLS); err != nil {
		return nil, flagError{err}
	}
	return all, nil
}

// checkTLS returns the fault in the flags for TLS. used: a proxy is reached by TLS.
func (t *target) checkTLS(used bool) error {
	for _, f := range []struct{ name, value string }{{"--tls-ca", t.ca}, {"--tls-cert", t.cert}, {"--tls-key", t.key},
		{"--tls-server-name", t.serverName}} {
		if f.value != "" && !used {
			return fmt.Errorf("%s %q needs a rediss:// address in --addr", f.name, f.value)
		}
	}
	if (t.cert == "") != (t.key == "") {
		return fmt.Errorf("--tls-cert %q and --tls-key %q: both or neither", t.cert, t.key)
	}
	return nil
}

func (t *target) dial(ctx context.Context, address conf.Address, resp3 bool) (*client, error) {
	ctx, cancel := within(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, address.Network, address.Addr)
	if err != nil {
		if end, _ := ctx.Deadline(); !time.Now().Before(end) {
			<-ctx.Done()
			err = endOf(ctx, connecting)
		}
		return nil, err
	}
	if address.TLS {
		config, err := t.tlsConfig(address)
		if err != nil {
			conn.Close()
			return nil, err
		}
		conn = tls.Client(conn, config)
	}
	c := newClient(conn, address.Name())
	if err := t.login(ctx, c, address, resp3); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (t *target) tlsConfig(address conf.Address) (*tls.Config, error) {
	config := &tls.Config{ServerName: t.serverName, MinVersion: tls.VersionTLS12}
	if config.ServerName == "" {
		config.ServerName = address.Host()
	}
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fmt.Errorf("--tls-ca: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("--tls-ca %s: no certificate in it", t.ca)
		}
	}
	if t.cert != "" {
		pair, err := tls.LoadX509KeyPair(t.cert, t.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// login sends AUTH if there is a password, and HELLO 3 with resp3. If the proxy refuses HELLO, it
// goes on in RESP2.
func (t *target) login(ctx context.Context, c *client, address conf.Address, resp3 bool) error {
	user, password := address.User, address.Password
	if t.passwordFile != "" {
		text, err := os.ReadFile(t.passwordFile)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		user, password = t.user, strings.TrimRight(string(text), "\r\n")
	}
	if password != "" && !t.nobody && !(t.operator && address.Network == "unix") {
		args := []string{"AUTH", user, password}
		if user == "" {
			args = []string{"AUTH", password}
		}
		r, err := c.ask(ctx, args...)
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(r.Text, fullText):
			return fmt.Errorf("%w: %s", errFull, r.Text)
		case strings.HasPrefix(r.Text, "ERR upstream "):
			return errors.New(r.Text) // the upstream has not checked the password
		case r.Kind == '-':
			return fmt.Errorf("%w: %s", errDenied, r.Text)
		}
	}
	if !resp3 {
		return nil
	}
	_, err := c.ask(ctx, "HELLO", "3")
	return err
}
