package quorum

import (
	"context"
	"errors"
)

// Admit is the operator's word that a master may join this deployment: name is its MasterOptions.Name. Where the master
// carries the record of proxies with other settings it is moved to ours, and nobody votes on it for the larger of both
// MaxTTL. Where it is in quarantine already, it is admitted at the end of that without the counters of masters that cannot be
// reached. A master that votes is left as it is.
//
// Errors: ErrNoSuchMaster; a MasterError that says why the master cannot be moved; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Admit(ctx context.Context, name string) error {
	return errors.New("not available")
}
