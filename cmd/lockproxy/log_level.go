package main

import (
	"encoding/json"
	"fmt"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// levelHandler tells (GET) and changes (PUT) the level of the log: {"level":"debug"}, whatever the content type says, as curl -d calls
// everything a form. It takes the levels of the setting log-level and no others: with "fatal" nobody would hear of an error any more.
type levelHandler struct {
	level zap.AtomicLevel
	log   *zap.Logger
}

var _ http.Handler = (*levelHandler)(nil)

// ServeHTTP implements http.Handler. The caller bounds the body.
func (h *levelHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPut {
		var asked struct{ Level string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			http.Error(w, `a level is put as {"level":"debug"}`, http.StatusBadRequest)
			return
		}
		to, err := zapcore.ParseLevel(asked.Level)
		if err != nil || asked.Level == "" || to > zapcore.ErrorLevel {
			http.Error(w, fmt.Sprintf("level %q is not one of debug, info, warn, error", asked.Level), http.StatusBadRequest)
			return
		}
		h.put(to, r.RemoteAddr)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, "{\"level\":%q}\n", h.level.Level())
}

// put changes the level. The line that says so is written whatever the levels are: it explains why others are there, or are missing.
func (h *levelHandler) put(to zapcore.Level, client string) {
	from := h.level.Level()
	h.level.SetLevel(min(from, to, zapcore.InfoLevel))
	h.log.Info("log-level put", zap.Stringer("from", from), zap.Stringer("to", to), zap.String("client", client))
	h.level.SetLevel(to)
}
