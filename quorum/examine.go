package quorum

import (
	"context"
	"sync"
	"time"

	"lockproxy/quorum/internal/admission"
	"lockproxy/quorum/internal/master"
)

// Examination is what Examine found out about one master.
type Examination struct {
	Err error // it could not be examined: a reason in plain words. All other fields are zero then

	Refusal  error // why the server cannot be a master at all, or nil: "is a replica"
	RunID    string
	Software string        // name and version: "redis 7.0.15"
	RTT      time.Duration // median
	Lacks    []string      // rights that lockproxy needs, in the words of ACL SETUSER
	Misses   []string      // rights that lockproxy can do without

	Policy    string // maxmemory-policy
	Limited   bool   // it has a memory limit
	MayEvict  bool   // it has a limit, and would rather lose locks than refuse writes
	Durable   bool   // every write is on disk before its reply
	Unknown   bool   // it has an append-only file, but does not let itself be asked for its settings
	AppendLog bool   // it has an append-only file

	ClockKnown bool
	Ahead      time.Duration // how far its clock is ahead of ours, give or take half of RTT

	// Differs names the settings of other proxies that the master belongs to, and ours: "max-ttl
	// 60000ms (here 30000ms)". Empty: it belongs to no others.
	Differs string
	State   string // the master's record: new, admitted, in quarantine
}

// Examine asks all masters at once, on connections of its own, until ctx ends; it must have a
// deadline. It changes no key and no setting, and starts no lanes.
func Examine(ctx context.Context, o Options) []Examination {
	guard := guardOptions(&o)
	all := make([]Examination, len(o.Masters))
	var wg sync.WaitGroup
	for i := range o.Masters {
		wg.Go(func() {
			found, err := master.Examine(ctx, &o.Masters[i], ReservedPrefix+"state:"+o.KeyPrefix, o.KeyPrefix)
			if err != nil {
				all[i] = Examination{Err: err}
				return
			}
			all[i] = examined(&found, &guard)
		})
	}
	wg.Wait()
	return all
}

func examined(f *master.Findings, o *admission.Options) Examination {
	e := Examination{Refusal: f.Refusal(), RunID: f.RunID, Software: f.Software(), RTT: f.RTT, Lacks: f.Lacks,
		Misses: f.Misses, Policy: f.Policy, Limited: f.Limited, MayEvict: f.MayEvict(), Durable: f.Durable(),
		Unknown: f.AOF && f.ConfigRefused, AppendLog: f.AOF, ClockKnown: f.Probed, Ahead: f.Ahead}
	if f.Probed {
		e.State, e.Differs = o.Describe(f.Probe)
	}
	return e
}
