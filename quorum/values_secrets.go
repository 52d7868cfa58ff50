package quorum

import (
	"hash/maphash"
	"sync"
)

// maxSecrets is how many secrets of adopted locks are remembered.
const maxSecrets = 1 << 14

// secrets remembers the secret of a value at a key, so that a release and a refresh need not look
// for it. It names secrets and no more: masters are asked whether they are held, because other
// proxies release locks, too. A new secret may take the place of an old one. Safe for concurrent
// use.
type secrets struct {
	mu    sync.Mutex
	seed  maphash.Seed
	table []secretOf // empty before the first
}

// secretOf has a hash of key and value instead of the value. By accident it may be found for
// another value; then the masters answer that the secret does not hold the key.
type secretOf struct {
	hash   uint64
	secret [secretLen]byte
}

// put remembers the secret of a value at a full key.
func (s *secrets) put(key, value, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil {
		s.table, s.seed = make([]secretOf, maxSecrets), maphash.MakeSeed()
	}
	hash, at := s.placeLocked(key, value)
	at.hash = hash
	copy(at.secret[:], secret)
}

// get returns the secret; empty if none is known.
func (s *secrets) get(key, value string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil {
		return ""
	}
	hash, at := s.placeLocked(key, value)
	if at.hash != hash || at.secret[0] == 0 {
		return ""
	}
	return string(at.secret[:])
}

// take returns the secret and forgets it.
func (s *secrets) take(key, value string) string {
	secret := s.get(key, value)
	if secret == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, at := s.placeLocked(key, value); string(at.secret[:]) == secret {
		*at = secretOf{}
	}
	return secret
}

func (s *secrets) placeLocked(key, value string) (hash uint64, at *secretOf) {
	hash = maphash.String(s.seed, key) + 31*maphash.String(s.seed, value)
	return hash, &s.table[hash%maxSecrets]
}
