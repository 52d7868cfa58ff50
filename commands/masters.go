package commands

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// masters is LOCKPROXY MASTERS: an array of maps.
func (s *Service) masters(c *call) {
	all := s.o.Locker.Masters()
	c.writeArray(len(all))
	for i, m := range all {
		c.writeMap(10)
		c.writeText("address", s.shownName(all, i))
		c.writeText("state", string(m.State))
		c.writeText("reason", plain.Line(s.shownText(all, m.Reason)))
		// 0 is for "not known"
		c.writeNumber("votes_in_ms", (m.VotesIn + time.Millisecond - 1).Milliseconds())
		c.writeNumber("since_ms", time.Since(m.Since).Milliseconds())
		c.writeText("run_id", m.RunID)
		c.writeNumber("rtt_us", m.RTT.Microseconds())
		c.writeNumber("grants", int64(m.Grants))
		c.writeNumber("refusals", int64(m.Refusals))
		c.writeNumber("errors", int64(m.Errors))
	}
}

// admitMaster is LOCKPROXY ADMIT address, as LOCKPROXY MASTERS shows it:
//
//	> *3\r\n$9\r\nLOCKPROXY\r\n$5\r\nADMIT\r\n$13\r\n10.0.0.1:6379\r\n
//	< +OK\r\n
func (s *Service) admitMaster(c *call) {
	all := s.o.Locker.Masters()
	i := 0
	for i < len(all) && s.shownName(all, i) != string(c.proxy.rest[0]) {
		i++
	}
	if i == len(all) {
		c.outcome = stat.OutcomeInvalid
		c.writeError("ERR no such master '" + plain.Short(string(c.proxy.rest[0])) + "': LOCKPROXY MASTERS lists them")
		return
	}
	c.key = all[i].Name
	err := s.o.Locker.Admit(c.session.Context(), all[i].Name)
	s.o.Log.Info("operator admits master", zap.String("master", all[i].Name), zap.Stringer("client", c.session.RemoteAddr()), zap.Error(err))
	reason := err
	if m, ok := errors.AsType[quorum.MasterError](err); ok {
		reason = m.Err // its text begins with the name
	}
	switch {
	case err == nil:
		c.writeStatus("OK")
	case errors.Is(err, context.Canceled):
		s.writeFailure(c, err)
	default:
		c.outcome = stat.OutcomeInvalid
		c.writeError(plain.Line("ERR " + s.shownName(all, i) + " " + s.shownText(all, reason.Error())))
	}
}

// shownName returns the name of all[i] as clients may see it.
func (s *Service) shownName(all []quorum.MasterStatus, i int) string {
	if s.now().ShowMasters {
		return all[i].Name
	}
	return "master " + strconv.Itoa(i+1)
}

// shownText returns text, which may name masters, as clients may see it.
func (s *Service) shownText(all []quorum.MasterStatus, text string) string {
	if s.now().ShowMasters {
		return text
	}
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	// one name may begin with another
	slices.SortFunc(order, func(i, j int) int { return len(all[j].Name) - len(all[i].Name) })
	for _, i := range order {
		text = strings.ReplaceAll(text, all[i].Name, s.shownName(all, i))
	}
	return text
}
