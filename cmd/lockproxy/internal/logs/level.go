package logs

import (
	"encoding/json"
	"fmt"
	"net/http"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// levelHandler returns (GET) and changes (PUT) the level of the log: {"level":"debug"}. It ignores
// the content type, because curl -d calls everything a form. It accepts the values of the setting
// log-level only: "fatal" would hide all errors.
type levelHandler struct{ log *Logs }

// LevelHandler serves the level over HTTP. The caller bounds the body.
func (l *Logs) LevelHandler() http.Handler { return levelHandler{l} }

// ServeHTTP implements http.Handler.
func (h levelHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	_, _ = fmt.Fprintf(w, "{\"level\":%q}\n", h.log.level.Level())
}

// put changes the level. It logs that at any level, to explain which lines follow or are missing.
func (h levelHandler) put(to zapcore.Level, client string) {
	from := h.log.level.Level()
	h.log.level.SetLevel(min(from, to, zapcore.InfoLevel))
	h.log.Info("log-level put", zap.Stringer("from", from), zap.Stringer("to", to), zap.String("client", client))
	h.log.level.SetLevel(to)
}
