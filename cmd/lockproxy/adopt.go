package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/redcon"
	"go.uber.org/zap"

	"lockproxy/commands"
	"lockproxy/conf"
	"lockproxy/quorum"
	"lockproxy/resp"
	"lockproxy/resp/respio"
	"lockproxy/stat"
	"lockproxy/upstream"
)

// The lock listener: adopt-listen.

// checkAdoptKeys returns why a pattern of adopt-keys cannot be used.
func checkAdoptKeys(cfg conf.Config) error {
	if _, err := commands.ParseAdoptKeys(cfg.LockKeys()); err != nil {
		return fmt.Errorf("adopt-keys: %w", err)
	}
	return nil
}

// adoptOptions returns the options of the lock listener; nil without one.
func adoptOptions(cfg conf.Config, q *quorum.Quorum, up *upstream.Upstream) *commands.AdoptOptions {
	if len(cfg.AdoptListen) == 0 {
		return nil
	}
	keys, _ := commands.ParseAdoptKeys(cfg.LockKeys()) // run has checked them
	return &commands.AdoptOptions{Values: q.Values(), Keys: keys, TTL: cfg.AdoptTTL, Left: leftUpstream(up.Dial)}
}

// newServers returns the server of listen, which o configures, and that of adopt-listen, or nil
// without one.
func newServers(o resp.Options, cfg conf.Config, service *commands.Service, relay *relay) (main, adopt *resp.Server) {
	if len(cfg.AdoptListen) == 0 {
		return resp.NewServer(o), nil
	}
	locks := o
	locks.Others, o.Others = relay.unadopted, relay.adopted
	locks.Handler, locks.Begin = redcon.HandlerFunc(service.ServeAdopted), service.BeginAdopted
	locks.Judge, locks.Alone, locks.Hints = service.Judge, service.Alone, nil
	return resp.NewServer(o), resp.NewServer(locks)
}

// logAdopt logs the addresses of the lock listener and the patterns of its lock keys.
func logAdopt(cfg conf.Config, listen []string, log *zap.Logger) {
	if len(listen) == 0 {
		return
	}
	fields := []zap.Field{zap.Strings("adopt_listen", listen), zap.String("adopt_keys", cfg.LockKeys())}
	if cfg.MaxTTL == conf.Default().MaxTTL {
		fields = append(fields, zap.String("hint", "libraries often ask for a longer ttl than max-ttl 60s"))
	}
	log.Info("lock listener", fields...)
}

// refusals returns what shows operators the refusals of the lock listener; nil without one.
func refusals(cfg conf.Config, service *commands.Service) func() []stat.RefusedKind {
	if len(cfg.AdoptListen) == 0 {
		return nil
	}
	return service.Refusals
}

// scanStep bounds one step of SCAN at the upstream.
const scanStep = 10 * time.Second

// scanCount is the COUNT of SCAN: a step of it takes the upstream about a millisecond.
const scanCount = "1000"

var scanLimits = respio.Limits{Line: 64 << 10, Text: 1 << 20, Elems: 1 << 17, Depth: 8, Reply: 64 << 20}

// leftUpstream returns a function that goes through the keys of all databases of the upstream.
func leftUpstream(dial func(context.Context) (net.Conn, error)) commands.LeftUpstream {
	return func(ctx context.Context, pattern string, each func(key []byte)) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { conn.Close() })()
		s := &scanner{conn: conn, replies: respio.NewReader(bufio.NewReader(conn), scanLimits)}
		keyspace, err := s.ask("INFO", "keyspace")
		if err != nil {
			return err
		}
		for line := range strings.Lines(keyspace.Text) {
			number, _, found := strings.Cut(strings.TrimPrefix(line, "db"), ":")
			if db, err := strconv.Atoi(number); !found || err != nil || db < 0 || !strings.HasPrefix(line, "db") {
				continue
			}
			if _, err := s.ask("SELECT", number); err != nil {
				return err
			}
			if err := s.scan(pattern, each); err != nil {
				return err
			}
		}
		return nil
	}
}

// scanner asks the upstream for its keys.
type scanner struct {
	conn    net.Conn
	replies *respio.Reader
}

// scan goes through the keys of one database.
func (s *scanner) scan(pattern string, each func(key []byte)) error {
	for cursor := "0"; ; {
		reply, err := s.ask("SCAN", cursor, "MATCH", pattern, "COUNT", scanCount)
		if err != nil {
			return err
		}
		if len(reply.Elems) != 2 {
			return errors.New("unexpected reply to SCAN")
		}
		for i := range reply.Elems[1].Elems {
			each([]byte(reply.Elems[1].Elems[i].Text))
		}
		if cursor = reply.Elems[0].Scalar(); cursor == "0" {
			return nil
		}
	}
}

func (s *scanner) ask(args ...string) (r respio.Reply, err error) {
	s.conn.SetDeadline(time.Now().Add(scanStep))
	if _, err = s.conn.Write(respio.AppendCommand(nil, args...)); err != nil {
		return r, err
	}
	if err = s.replies.Read(&r); err == nil && r.IsError() {
		err = &upstream.ReplyError{Text: r.Text}
	}
	return r, err
}
