package quorum

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Info is what the masters hold for one key.
type Info struct {
	Key     string        // without Options.KeyPrefix
	Held    int           // masters that hold the winning token; 0: no token holds a majority, and what follows Masters is zero
	Masters int           // all masters
	TTL     time.Duration // after which no majority holds it: the majority-th largest; negative: a majority never lets go
	Fence   uint64        // the largest counted for the token; 0 for the value of another Redlock library
	Owner   string        // label given to Acquire
}

// Inspect asks every master what it holds for key, and returns the token that holds a majority, without its secret. The value of
// another Redlock library counts as a token. It waits for all masters, at most Options.MasterTimeout.
//
// Errors: ErrNoQuorum (as *NoQuorumError) if less than a majority answered, or if those that did not could make a majority
// for some token; context.Cause(ctx). Safe for concurrent use.
func (q *Quorum) Inspect(ctx context.Context, key string) (Info, error) {
	answers, err := q.surveyAll(ctx, opInfo, q.opts.KeyPrefix+key)
	if err != nil {
		return Info{}, err
	}
	values := make([]standing, len(answers))
	silent := 0
	for i, a := range answers {
		if a.err != nil {
			silent++
			continue
		}
		if values[i], err = parseStanding(a); err != nil {
			answers[i].err = err
			silent++
		}
	}
	info, most := winner(values)
	info.Key = key
	if maj := majority(len(values)); info.Held == 0 && (silent > len(values)-maj || most+silent >= maj) {
		return Info{}, q.noQuorumOf(answers)
	}
	return info, nil
}

// forever is how long a key without expiry lives.
const forever = time.Duration(math.MaxInt64)

// standing is what one master holds for a key. The zero value is nothing, or something that is no lock.
type standing struct {
	id    string // what makes two values the same token
	left  time.Duration
	fence uint64
	owner string
}

var errInfoForm = errors.New("answered an unexpected reply")

// parseStanding reads the reply of info.lua.
func parseStanding(a answer) (standing, error) {
	switch {
	case a.null, a.kind == '+':
		return standing{}, nil
	case a.kind != '$':
		return standing{}, errInfoForm
	}
	digits, value, _ := strings.Cut(a.text, " ")
	left, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return standing{}, errInfoForm
	}
	h := standing{id: value, left: millisOf(left)}
	if value == "" {
		h.id = "\x00" // an empty string is a value too
	}
	if len(value) >= secretLen {
		if fence, owner, ok := behindSecret(value[secretLen:]); ok {
			h.id, h.fence, h.owner = value[:secretLen], fence, owner
		}
	}
	return h, nil
}

// winner is the token that stands on a majority of values, one for each master; Held is 0 where there is none. most is how
// many masters hold the one that stands on most.
func winner(values []standing) (info Info, most int) {
	info.Masters = len(values)
	best := ""
	count := make(map[string]int, 1)
	for _, h := range values {
		if h.id == "" {
			continue
		}
		if count[h.id]++; count[h.id] > most {
			best, most = h.id, count[h.id]
		}
	}
	maj := majority(len(values))
	if most < maj {
		return info, most
	}
	info.Held = most
	lefts := make([]time.Duration, 0, most)
	for _, h := range values {
		if h.id != best {
			continue
		}
		lefts = append(lefts, h.left)
		info.Fence = max(info.Fence, h.fence)
		if info.Owner == "" {
			info.Owner = plain(h.owner)
		}
	}
	slices.Sort(lefts)
	if info.TTL = lefts[most-maj]; info.TTL == forever {
		info.TTL = -time.Millisecond
	}
	return info, most
}
