package quorum

import "context"

// ReleaseKey deletes the lock of key on every master that answers, whoever holds it, and reports whether one stood
// there. Any string counts as a lock, also the value of another Redlock library and what is left of a lock without a
// majority; keys of other types stay. Those who Watch the key are told.
//
// Masters that do not answer within Options.MasterTimeout keep what they hold until its ttl. Errors, when nothing was found:
// ErrNoQuorum (as *NoQuorumError) if less than a majority answered; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) ReleaseKey(ctx context.Context, key string) (bool, error) {
	answers, err := q.surveyAll(ctx, opFree, q.opts.KeyPrefix+key)
	if err != nil {
		return false, err
	}
	count := 0
	for _, a := range answers {
		switch {
		case a.err != nil:
		case a.n == 1:
			return true, nil
		default:
			count++
		}
	}
	if count < majority(len(answers)) {
		return false, q.noQuorumOf(answers)
	}
	return false, nil
}
