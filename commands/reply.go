package commands

import (
	"fmt"

	"github.com/tidwall/redcon"

	"lockproxy/stat"
)

// reply holds the bytes of a command's reply.
type reply []byte

func (r *reply) writeError(text string)  { *r = redcon.AppendError(*r, text) }
func (r *reply) writeStatus(text string) { *r = redcon.AppendString(*r, text) }
func (r *reply) writeBulk(text string)   { *r = redcon.AppendBulkString(*r, text) }
func (r *reply) writeInt(n int64)        { *r = redcon.AppendInt(*r, n) }
func (r *reply) writeArray(n int)        { *r = redcon.AppendArray(*r, n) }

// writeLines writes lines of help.
func (r *reply) writeLines(lines []string) {
	r.writeArray(len(lines))
	for _, line := range lines {
		r.writeStatus(line)
	}
}

func (r *reply) writeText(name, value string) {
	r.writeBulk(name)
	r.writeBulk(value)
}

func (r *reply) writeNumber(name string, value int64) {
	r.writeBulk(name)
	r.writeInt(value)
}

// writeFields writes a map of a report's fields. The caller then writes the given number of
// further entries.
func (c *call) writeFields(fields []stat.Field, more int) {
	c.writeMap(len(fields) + more)
	for _, f := range fields {
		if f.Text != nil {
			c.writeText(f.Name, *f.Text)
		} else {
			c.writeNumber(f.Name, *f.Number)
		}
	}
}

// writeNull writes null in the client's version of the protocol.
func (c *call) writeNull() {
	if c.session.RESP3() {
		c.reply = append(c.reply, "_\r\n"...)
		return
	}
	c.reply = redcon.AppendNull(c.reply)
}

// writeMap begins a map of n fields, in RESP2 a flat array.
func (c *call) writeMap(n int) {
	if c.session.RESP3() {
		c.reply = fmt.Appendf(c.reply, "%%%d\r\n", n)
		return
	}
	c.writeArray(2 * n)
}

// refuse writes the reply to a command that does not run: err, without the leading dash.
func (c *call) refuse(err error) {
	c.outcome = refusedAs(err)
	c.writeError(err.Error())
}
