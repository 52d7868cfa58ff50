package quorum

import (
	"context"
	"errors"
)

// question is a single question on a lane, for those who can wait.
type question struct{ answered chan answer }

var _ receiver = (*question)(nil)

// ask sends c and waits for the answer, or for the end of ctx.
func (l *lane) ask(ctx context.Context, c command) (answer, error) {
	one := &question{make(chan answer, 1)}
	c.to = one
	if err := l.send(c); err != nil {
		return answer{}, err
	}
	select {
	case a := <-one.answered:
		return a, a.err
	case <-ctx.Done():
		return answer{}, errors.Join(silentError(handshakeTimeout), context.Cause(ctx))
	}
}

func (o *question) reply(_ int, _ opKind, r *reply) {
	if r.isError() {
		o.answered <- answer{err: answered(r)}
		return
	}
	o.answered <- answer{kind: r.kind, null: r.null, text: r.text, n: r.ints[0]}
}

func (o *question) gone(_ int, _ opKind, err error, _ bool) { o.answered <- answer{err: err} }
