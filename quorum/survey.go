package quorum

import (
	"context"
	"sync"
	"time"
)

// answer is what one master said to a survey.
type answer struct {
	kind byte
	null bool
	text string
	n    int64
	err  error // why it does not count; then nothing else is set
}

// survey asks every master one thing about a key, for commands that want to know all of them rather than to decide
// early. It belongs to one call.
type survey struct {
	waiter
	mu      sync.Mutex
	left    int
	over    bool // later answers are dropped
	answers []answer
}

var _ receiver = (*survey)(nil)

// surveyAll returns what each master said within Options.MasterTimeout, in their order, or the cause of ctx's
// end. key is the full key.
func (q *Quorum) surveyAll(ctx context.Context, op opKind, key string) ([]answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	q.enter()
	defer q.leave()
	timeout := max(q.opts.MasterTimeout, minAttempt)
	s := &survey{waiter: newWaiter(), left: len(q.lanes), answers: make([]answer, len(q.lanes))}
	for i := range s.answers {
		s.answers[i].err = silentError(timeout)
	}
	for i, l := range q.lanes {
		if err := l.send(command{op: op, to: s, key: key}); err != nil {
			s.gone(i, op, err, false)
		}
	}
	if err := s.wait(ctx, timeout); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.answers, nil
}

func (s *survey) reply(lane int, _ opKind, r *reply) {
	if r.isError() {
		s.answered(lane, answer{err: answered(r)})
		return
	}
	s.answered(lane, answer{kind: r.kind, null: r.null, text: r.text, n: r.ints[0]})
}

func (s *survey) gone(lane int, _ opKind, err error, _ bool) { s.answered(lane, answer{err: err}) }

func (s *survey) answered(lane int, a answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.answers[lane] = a
	if s.left--; s.left == 0 {
		s.signal()
	}
}

// noQuorumOf is the error for answers of which too few count.
func (q *Quorum) noQuorumOf(answers []answer) error {
	e := &NoQuorumError{N: len(answers), Needed: majority(len(answers))}
	for i, a := range answers {
		if a.err == nil {
			e.Answered++
			continue
		}
		e.Masters = append(e.Masters, MasterError{Index: i, Name: q.lanes[i].names[i], Err: a.err})
	}
	return e
}

// millisOf is n milliseconds, or forever for a key without expiry.
func millisOf(n int64) time.Duration {
	if n < 0 {
		return forever
	}
	return min(time.Duration(n), forever/time.Millisecond) * time.Millisecond
}
