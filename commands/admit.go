package commands

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"lockproxy/plain"
	"lockproxy/quorum"
	"lockproxy/stat"
)

// admitMaster is LOCKPROXY ADMIT master [FORCE]. masterCalled finds the master:
//
//	> *3\r\n$9\r\nLOCKPROXY\r\n$5\r\nADMIT\r\n$13\r\n10.0.0.1:6379\r\n
//	< +OK\r\n
func (o *operators) admitMaster(c *call) {
	all := o.opts.Inspector.Masters()
	called := string(bytes.Join(c.proxy.rest, []byte(" ")))
	i := masterCalled(all, called)
	if i < 0 {
		c.outcome = stat.OutcomeInvalid
		c.writeError(plain.Line("ERR no such master '" + plain.Short(called) + "': it is one of " + o.candidates(all)))
		return
	}
	c.key = all[i].Name
	err := o.opts.Inspector.Admit(c.session.Context(), all[i].Name, c.proxy.force)
	o.opts.Log.Info("operator admits master", zap.String("master", all[i].Name),
		zap.Bool("force", c.proxy.force), zap.Stringer("client", c.session.RemoteAddr()), zap.Error(err))
	reason := err
	if m, ok := errors.AsType[quorum.MasterError](err); ok {
		reason = m.Err // its text begins with the name
	}
	switch {
	case err == nil:
		c.writeStatus("OK")
	case errors.Is(err, context.Canceled):
		o.outcomes.writeFailure(c, err)
	default:
		c.outcome = stat.OutcomeInvalid
		c.writeError(plain.Line("ERR " + o.shownName(all, i) + " " + o.shownText(all, reason.Error())))
	}
}

// masterCalled returns the place of the master that an operator calls so, from 0, or -1 if
// there is none. The log and LOCKPROXY MASTERS show "m1@10.0.0.1:6379", or "master 3" to clients
// that must not see names. "m1" and "10.0.0.1:6379" are names, too, if they mean one master.
func masterCalled(all []stat.Master, called string) int {
	for i, m := range all {
		if m.Name == called || strings.EqualFold(placeName(i), called) {
			return i
		}
	}
	found := -1
	for i, m := range all {
		name, address, named := strings.Cut(m.Name, "@")
		if !named || called != name && called != address {
			continue
		}
		if found >= 0 {
			return -1
		}
		found = i
	}
	return found
}

// candidates lists all masters by the names that clients may see.
func (n *masterNames) candidates(all []stat.Master) string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = n.shownName(all, i)
	}
	return strings.Join(names, ", ")
}

// placeName is the name of the master at all[i] by its place.
func placeName(i int) string { return "master " + strconv.Itoa(i+1) }
