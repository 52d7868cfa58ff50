package quorum

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"go.uber.org/zap"
)

// ReservedPrefix begins the names of everything kept on a master beside the locks. A full key (Options.KeyPrefix and
// key) that begins with it must not be locked.
const ReservedPrefix = "lockproxy:"

// MasterOptions says how one master is reached.
type MasterOptions struct {
	Name     string // as written by the operator, without credentials; used in messages. Empty: Addr
	ID       string // what all proxies of the deployment call this master, however they reach it. Empty: address and database
	Network  string // "tcp" or "unix"; empty: tcp
	Addr     string // host:port, or the path of a socket
	User     string // empty: the default user
	Password string // empty: no AUTH
	DB       int    // selected on every connection

	// Login, if not nil, takes the place of User and Password. It is called for every connection and must not block.
	Login func() (user, password string)
	// TLS is how to speak TLS, asked for every connection; nil: plain. It must not block. Without ServerName the host of Addr is verified.
	TLS func() *tls.Config

	// Dial opens the connection below TLS. nil: net.Dialer. Must be safe for concurrent use.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Options are the settings of a Quorum. All proxies in front of the same masters must agree on Masters (as a set),
// KeyPrefix, MaxTTL and Fencing.
type Options struct {
	Masters       []MasterOptions // at least one; an even number tolerates no more failures than one less
	KeyPrefix     string          // put before every key; must not begin with ReservedPrefix
	MasterTimeout time.Duration   // how long a master has to answer; an attempt uses min(MasterTimeout, ttl/20), at least 2ms
	MaxTTL        time.Duration   // longest ttl; also how long a release of an unknown token is owed, and a master that lost its memory stays out of the vote
	Fencing       bool            // without it the number in a token is 0
	Guard         Guard           // what happens to a master that may have lost its memory
	AllowEviction bool            // let masters vote that may evict keys to save memory
	Log           *zap.Logger     // nil: none

	dice *dice
}

// Guard says what happens to a master that may have lost its memory: one that restarted, was flushed or stepped its clock.
// GuardOff must be chosen by all proxies of a deployment or by none.
type Guard uint8

const (
	GuardOn     Guard = iota // it stays out of the vote for Options.MaxTTL and a margin; masters that are all new vote at once
	GuardStrict              // as GuardOn, and new masters wait as well
	GuardOff                 // it votes at once, and may grant a lock twice
)

// Request is what Acquire is asked for.
type Request struct {
	Key   string        // without Options.KeyPrefix
	TTL   time.Duration // 1ms to Options.MaxTTL; counted in whole milliseconds, rounded down
	Owner string        // label that Inspect shows; up to 64 printable ASCII bytes, may be empty. Proves nothing
}

// Lease is what Acquire granted.
type Lease struct {
	Token    Token
	Validity time.Duration // what the holder may count on from the moment Acquire returned; positive
}

// login is who to be on a new connection; no password: nobody.
func (o *MasterOptions) login() (user, password string) {
	if o.Login != nil {
		return o.Login()
	}
	return o.User, o.Password
}

// id is what the master is called in the settings that all proxies agree on.
func (o *MasterOptions) id() string {
	if o.ID != "" {
		return o.ID
	}
	if o.DB != 0 {
		return fmt.Sprintf("%s/%d", o.Addr, o.DB)
	}
	return o.Addr
}

// validate lists everything that is wrong with o.
func (o *Options) validate() error {
	var faults []error
	if len(o.Masters) == 0 {
		faults = append(faults, errors.New("no masters"))
	}
	for i := range o.Masters {
		m := &o.Masters[i]
		if m.Addr == "" {
			faults = append(faults, fmt.Errorf("master %d has no address", i+1))
		}
		if n := m.network(); n != "tcp" && n != "unix" {
			faults = append(faults, fmt.Errorf("master %d has network %q, want tcp or unix", i+1, n))
		}
		if m.DB < 0 {
			faults = append(faults, fmt.Errorf("master %d has database %d", i+1, m.DB))
		}
	}
	if strings.HasPrefix(o.KeyPrefix, ReservedPrefix) {
		faults = append(faults, fmt.Errorf("key prefix %q begins with %q", o.KeyPrefix, ReservedPrefix))
	}
	if o.MasterTimeout <= 0 {
		faults = append(faults, fmt.Errorf("master timeout %v is not positive", o.MasterTimeout))
	}
	if o.MaxTTL < time.Millisecond {
		faults = append(faults, fmt.Errorf("max ttl %v is under 1ms", o.MaxTTL))
	}
	return errors.Join(faults...)
}
