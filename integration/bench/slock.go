package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"lockproxy/resp/respio"
)

// slockNodes is how many nodes slock's replica set has.
const slockNodes = 3

// slockServers starts a replica set. Its leader, which clients go to, takes the place of a proxy,
// the followers that of masters. It returns when the leader grants and the followers acknowledge.
func (r *rig) slockServers(binary string) (lockServers, error) {
	var nodes []*server
	for i := range slockNodes {
		data, err := os.MkdirTemp(r.dir, "slock-")
		if err != nil {
			return lockServers{}, err
		}
		s, err := r.up(fmt.Sprintf("slock %d", i+1), func(addr string) ([]string, error) {
			host, port, err := net.SplitHostPort(addr)
			return []string{binary, "--bind", host, "--port", port, "--data_dir", data,
				"--log", filepath.Join(data, "log"), "--log_level", "ERROR", "--replset", "bench"}, err
		})
		if err != nil {
			return lockServers{}, err
		}
		nodes = append(nodes, s)
	}
	leader := nodes[0]
	for i, s := range nodes {
		word := "ADD"
		if i == 0 {
			word = "CONFIG"
		}
		if err := r.poll(func() error {
			return expect(leader.addr, "+OK\r\n", "REPLSET", word, s.addr, "weight", strconv.Itoa(slockNodes-i), "arbiter", "0")
		}); err != nil {
			return lockServers{}, err
		}
	}
	return lockServers{proxy: leader, masters: nodes[1:]}, r.poll(func() error { return r.slockGrants(leader.addr) })
}

// slockGrants takes and gives back a lock.
func (r *rig) slockGrants(leader string) error {
	list, err := openSlock(loadOrder{Addrs: []string{leader}, Workers: 1, Span: time.Second})
	if err != nil {
		return err
	}
	s := list[0].(*slocked)
	defer s.conn.Close()
	if err := s.lock(r.ctx, "is-ready"); err != nil {
		return err
	}
	return s.unlock(r.ctx, "is-ready")
}

// slocked is a connection to slock's leader. It speaks the protocol of Redis there.
type slocked struct {
	*client
	timeout string
	id      string // of the lock
}

// slockAcknowledged, in the upper half of TIMEOUT, asks for the answer only when a majority of the
// nodes has the lock.
const slockAcknowledged = 0x1000 << 16

func openSlock(o loadOrder) ([]locker, error) {
	wait := 5 // seconds; without contention no client waits
	if o.Contend {
		wait = 30
	}
	var list []locker
	for range o.Workers {
		c, err := dial(o.Addrs[0])
		if err != nil {
			return nil, err
		}
		if err := c.conn.SetDeadline(time.Now().Add(2*time.Minute + o.Span)); err != nil {
			return nil, err
		}
		list = append(list, &slocked{client: c, timeout: strconv.Itoa(slockAcknowledged | wait)})
	}
	return list, nil
}

func (s *slocked) lock(_ context.Context, key string) (err error) {
	s.id, err = s.ask("LOCK", key, "TIMEOUT", s.timeout, "EXPRIED", strconv.Itoa(int(lockFor/time.Second)))
	return err
}

func (s *slocked) unlock(_ context.Context, key string) error {
	_, err := s.ask("UNLOCK", key, "LOCK_ID", s.id)
	return err
}

// ask sends a command and returns the id in its reply, which is an array of twelve bulk strings:
//
//	0, OK, LOCK_ID, 32 hex digits, LCOUNT, 1 ...
func (s *slocked) ask(args ...string) (id string, err error) {
	if err := s.send(args...); err != nil {
		return "", err
	}
	var r respio.Reply
	if err := s.replies.Read(&r); err != nil {
		return "", err
	}
	if len(r.Elems) != 12 {
		return "", fmt.Errorf("%s: %q", args[0], r.Scalar())
	}
	if result := r.Elems[0].Scalar(); result != "0" {
		return "", fmt.Errorf("%s: result %s", args[0], result)
	}
	return r.Elems[3].Scalar(), nil
}
