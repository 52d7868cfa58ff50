package protocol

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"lockproxy/resp/internal/scan"
)

// Hint describes a command of the proxy in the upstream's replies to COMMAND. The bytes are in
// RESP2 and in RESP3.
type Hint struct {
	Name string    // in lower case
	Info [2][]byte // an element of COMMAND INFO
	Docs [2][]byte // a pair of COMMAND DOCS: the name and a map
}

// mostEdits is how many requests of a pipeline get hints. The others pass as they are.
const mostEdits = 16

// edit is a change to the reply to a request: elements at its end, or in place of nulls.
type edit struct {
	number  uint64 // of the reply
	kinds   string // types of the reply that is changed; another passes as it is
	width   int64  // elements for each hint in an array
	hints   []Hint
	of      func(*Hint, int) []byte // an element in RESP2 (0) or RESP3 (1); nil: the reply is a number
	atNulls bool                    // element i is hints[i], if the upstream has null there
}

func infoOf(h *Hint, resp int) []byte { return h.Info[resp] }
func docsOf(h *Hint, resp int) []byte { return h.Docs[resp] }
func nameOf(h *Hint, _ int) []byte {
	return []byte("$" + strconv.Itoa(len(h.Name)) + "\r\n" + h.Name + "\r\n")
}

// hint lets the reply to COMMAND, which is forwarded next, have the hints, unless other replies
// may be taken for it.
func (c *Conn) hint(req *scan.Requests) {
	regular := !c.changes.has(irregular|monitor) && !c.garbled.Load()
	if e := newEdit(req, c.options.Hints); regular && e != nil {
		e.number = c.sent.Load() + 1
		select {
		case c.edits <- e:
		default:
		}
	}
}

// newEdit returns the change to the reply to COMMAND; nil: none.
//
//	> COMMAND [COUNT | LIST | INFO [name ...] | DOCS [name ...]]
func newEdit(req *scan.Requests, all []Hint) *edit {
	named := make([]Hint, 0, 2)
	for i := 2; i < len(req.Argv); i++ {
		named = append(named, find(all, string(req.Argv[i])))
	}
	sub := req.Arg(1)
	switch {
	case int64(max(len(req.Argv), 1)) < req.Args: // names were left out
	case req.Args == 1, req.Args == 2 && sub == "info":
		return &edit{kinds: "*", width: 1, hints: all, of: infoOf}
	case req.Args == 2 && sub == "count":
		return &edit{kinds: ":", width: 1, hints: all}
	case req.Args == 2 && sub == "list":
		return &edit{kinds: "*", width: 1, hints: all, of: nameOf}
	case req.Args == 2 && sub == "docs":
		return &edit{kinds: "*%", width: 2, hints: all, of: docsOf}
	case sub == "docs":
		named = slices.DeleteFunc(slices.Clone(all), func(h Hint) bool { return find(named, h.Name).Name == "" })
		return &edit{kinds: "*%", width: 2, hints: named, of: docsOf}
	case sub == "info":
		return &edit{kinds: "*", hints: named, of: infoOf, atNulls: true}
	}
	return nil
}

// find returns the hint of a name; the zero value if there is none.
func find(all []Hint, name string) Hint {
	i := slices.IndexFunc(all, func(h Hint) bool { return strings.EqualFold(h.Name, name) })
	if i < 0 {
		return Hint{}
	}
	return all[i]
}

// editor changes replies. It is the copier's.
type editor struct {
	next    *edit // the next one, or the current one
	resp    int   // 1: the reply is in RESP3
	element int   // elements of the reply that have begun
}

// edits reports whether the frame at hand is the reply that is changed next, after so many
// replies.
func (r *ReplyReader) edits(received uint64) bool {
	d := &r.editor
	if d.next == nil && len(r.conn.edits) > 0 {
		*d = editor{next: <-r.conn.edits}
	}
	if d.next != nil && d.next.number <= received {
		d.next = nil // the upstream was asked meanwhile
	}
	return d.next != nil && d.next.number == received+1 && r.answers.stage != answering
}

// rewrite reads a piece of the reply that is changed, or a frame before it. It returns the Part
// that ends with a change, and whether it has read anything.
func (r *ReplyReader) rewrite(s *split) (changed *Part, read bool) {
	b, e := s.b[s.at:], r.editor.next
	inside := r.frames.Inside()
	if inside && r.frames.First == '>' || !inside && b[0] == '>' {
		return nil, r.frame(s, false)
	}
	out, v := r.change(b, inside)
	if v == wait || r.editor.next == nil {
		return nil, v != wait
	}
	n, ended := r.frames.Step(b)
	part := Part{From: s.from, To: s.at, Boundary: s.boundary - s.from, Used: s.at + n, Ends: ended}
	if s.at += n; out == nil {
		part.To = s.at
	}
	if ended {
		s.received++
		r.editor.next = nil
		out = slices.Concat(out, e.tail(r.editor.resp))
	}
	switch part.Insert = out; {
	case len(out) > 0:
		r.conn.received.Store(s.received)
		return &part, true
	case ended:
		s.boundary = s.at
	}
	return nil, n > 0
}

// change returns the replacement of the line at the front of b; nil: the line passes. An error and
// +QUEUED end the edit.
func (r *ReplyReader) change(b []byte, inside bool) (out []byte, v frameFate) {
	d, e := &r.editor, r.editor.next
	if !r.frames.AtElement() {
		return nil, pass
	}
	if b[0] == '~' || b[0] == '%' {
		d.resp = 1
	}
	if inside && (!e.atNulls || r.frames.Depth() != 1) {
		return nil, pass
	}
	end := bytes.IndexByte(b, '\n') + 1
	switch {
	case end == 0 && len(b) < maxAnswer && (inside || strings.IndexByte(e.kinds, b[0]) >= 0):
		return nil, wait
	case inside:
		return d.null(string(b[:end])), pass
	}
	if out = e.header(b[:end]); out == nil {
		d.next = nil
	}
	return out, pass
}

// header returns the first line of the changed reply, for that of the upstream; nil: it is not
// changed.
func (e *edit) header(line []byte) []byte {
	n, err := strconv.ParseInt(string(bytes.TrimSpace(line[min(1, len(line)):])), 10, 64)
	if err != nil || n < 0 || strings.IndexByte(e.kinds, line[0]) < 0 {
		return nil
	}
	more := int64(len(e.hints)) * e.width
	if line[0] == '%' {
		more /= e.width
	}
	return append(strconv.AppendInt([]byte{line[0]}, n+more, 10), '\r', '\n')
}

// null takes the first line of the next element. It returns the element in place of a null; nil:
// the upstream's stays.
func (d *editor) null(line string) []byte {
	i := d.element
	d.element++
	switch {
	case i >= len(d.next.hints):
		return nil
	case line == "$-1\r\n", line == "*-1\r\n":
		return d.next.hints[i].Info[0]
	case line == "_\r\n":
		return d.next.hints[i].Info[1]
	}
	return nil
}

// tail returns the elements at the end of the changed reply.
func (e *edit) tail(resp int) (b []byte) {
	if e.of == nil || e.atNulls {
		return nil
	}
	for i := range e.hints {
		b = append(b, e.of(&e.hints[i], resp)...)
	}
	return b
}
