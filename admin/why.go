package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Limits of GET /why.
const (
	maxWhys = 4               // questions at a time; each asks all masters
	whyTime = 3 * time.Second // for one question, the wait for its turn included
)

// why serves GET /why?key=text: a stat.Why.
func (s *Site) why(w http.ResponseWriter, r *http.Request) {
	key := r.FormValue("key")
	if len(key) == 0 || len(key) > maxKey {
		http.Error(w, "want ?key= with 1 to 1024 bytes", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), whyTime)
	defer cancel()
	select {
	case s.whys <- struct{}{}:
		defer func() { <-s.whys }()
	case <-ctx.Done():
		w.Header().Set("Retry-After", "2")
		http.Error(w, "others are asking just now", http.StatusServiceUnavailable)
		return
	}
	answer, err := s.o.Why(ctx, key)
	if err != nil {
		http.Error(w, s.o.Explain(err), http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(&answer)
}
