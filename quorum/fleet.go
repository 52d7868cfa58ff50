package quorum

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"lockproxy/quorum/internal/master"
	"lockproxy/quorum/internal/wire"
)

// fleet is the lanes to all masters, and the clock of their answers. It sends operations to
// masters and judges how long to wait for each; decisions about locks are made by rounds.
//
// It has no mutex: its fields are set before the lanes run, and each part guards itself.
type fleet struct {
	opts      *Options
	log       *zap.Logger
	enc       wire.Encoder
	lanes     []*master.Lane
	epoch     time.Time // the lanes' clocks begin there
	deadlines deadlines
	lateness  lateness
	gather    deadline   // flush runs again, for requests that wait for other answers of their lane
	load      func() int // how many LOCKs are under way or wait

	cancel  context.CancelFunc // ends the lanes
	stopped chan struct{}      // closed by stop
	wg      sync.WaitGroup     // supervisors of the lanes; wait waits
}

// newFleet returns a fleet whose lanes report to host. start runs them.
func newFleet(o *Options, log *zap.Logger, host master.Host, load func() int) *fleet {
	f := &fleet{
		opts:    o,
		log:     log,
		enc:     wire.Encoder{StateKey: ReservedPrefix + "state:" + o.KeyPrefix, Fencing: o.Fencing},
		load:    load,
		epoch:   time.Now(),
		stopped: make(chan struct{}),
	}
	f.lateness.log = log
	f.deadlines.after, f.deadlines.wasLate = f.flush, f.lateness.note
	f.gather.expire = func() {}
	names := make([]string, len(o.Masters))
	for i := range o.Masters {
		names[i] = o.Masters[i].NameOf()
	}
	guard := guardOptions(o)
	for i := range o.Masters {
		f.lanes = append(f.lanes, master.New(master.LaneConfig{
			Index: i, Options: &o.Masters[i], Names: names, Encoder: &f.enc, KeyPrefix: o.KeyPrefix, MaxTTL: o.MaxTTL,
			Unguarded: o.Guard == GuardOff, Host: host, Log: log, Dice: o.Dice, Start: f.epoch, Adopt: o.Adopt,
			Client: guard.ClientName(),
		}))
	}
	return f
}

// start connects the lanes.
func (f *fleet) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.cancel = cancel
	for _, l := range f.lanes {
		f.wg.Go(func() { l.Run(ctx) })
	}
	f.lateness.observe(&f.deadlines)
}

// stop ends the lanes. wait waits for them and ends the deadlines.
func (f *fleet) stop() {
	f.cancel()
	close(f.stopped)
}

func (f *fleet) wait() {
	f.wg.Wait()
	f.deadlines.close()
}

// ready returns when every master has been evaluated or could once not be reached, when the fleet
// was stopped, or with the cause of ctx's end.
func (f *fleet) ready(ctx context.Context) error {
	for _, l := range f.lanes {
		select {
		case <-l.Ready():
		case <-f.stopped:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// flush writes the queued operations of all lanes.
func (f *fleet) flush() {
	again := time.Duration(0)
	for _, l := range f.lanes {
		if left := l.Flush(); left > 0 && (again == 0 || left < again) {
			again = left
		}
	}
	if again > 0 {
		f.deadlines.within(&f.gather, time.Now().Add(again))
	}
}

// refuseWork makes the lanes refuse new operations, releases excepted.
func (f *fleet) refuseWork() {
	for _, l := range f.lanes {
		l.BeginClose()
	}
}

// pendingReleases returns how many releases connected masters have not answered.
func (f *fleet) pendingReleases() (n int) {
	for _, l := range f.lanes {
		n += l.PendingReleases()
	}
	return n
}

// distance is the round trip to the farthest master of the nearest majority, without load.
func (f *fleet) distance() time.Duration {
	all := make([]time.Duration, len(f.lanes))
	for i, l := range f.lanes {
		all[i], _ = l.RTT()
	}
	slices.Sort(all)
	return all[majority(len(all))-1]
}

// tokenAt returns the token at a key, in the form for masters.
func (f *fleet) tokenAt(key string, t Token) wire.TokenAt {
	return wire.TokenAt{Key: f.opts.KeyPrefix + key, Secret: t.Secret}
}

// releaseAt releases a token on a set of masters.
func (f *fleet) releaseAt(t wire.TokenAt, masters uint64) {
	op := wire.Op{Kind: wire.Release, TokenAt: t, Publish: true}
	for i, l := range f.lanes {
		if masters&(1<<i) != 0 {
			_ = l.Release(op, f.opts.longestLife(), false, nil)
		}
	}
}

// callAll sends a command to all masters at once and passes their answers to use, one at a time.
// It leaves out errors, and masters that do not answer within Options.MasterTimeout.
func (f *fleet) callAll(ctx context.Context, use func(lane int, r wire.Reply), request []byte) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.MasterTimeout)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, l := range f.lanes {
		wg.Go(func() {
			if r, err := l.Call(ctx, request); err == nil {
				mu.Lock()
				defer mu.Unlock()
				use(i, r)
			}
		})
	}
	wg.Wait()
}
