package quorum

import (
	"context"
	"errors"
	"time"
)

var errNotYet = errors.New("not built yet")

// ExtendKeys is Extend for a token of several keys, which it names all; ErrLost says that one of
// them at least is lost, and ends the others. With share it makes an exclusive lock of one key a
// shared one with the same token and fence.
func (q *Quorum) ExtendKeys(ctx context.Context, keys []string, t Token, ttl time.Duration, share bool) (time.Duration, error) {
	return 0, errNotYet
}

// ReleaseKeys is Release for a token of several keys, or some of them: it reports whether all were
// held. With keep they stay closed for keep, for everybody; what a Shared or Limited token held
// stays taken.
func (q *Quorum) ReleaseKeys(ctx context.Context, keys []string, t Token, keep time.Duration) (bool, error) {
	return false, errNotYet
}

// Follow calls changed whenever key is granted or released, through any proxy, or may have been;
// for the rest see Watch.
func (q *Quorum) Follow(ctx context.Context, key string, changed func()) (stop func()) {
	return func() {}
}
