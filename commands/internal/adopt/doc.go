// Package adopt reads what lock libraries send to one Redis: plain commands such as SET NX, and
// Lua scripts that it recognises by their form. It is pure: no sockets, no clock.
//
// [Patterns] says which keys are locks. [Patterns.Judge] decides, while a request arrives, whether
// the request names one: then the proxy runs or refuses it, and the upstream never sees it.
// [Table.Parse] makes a [LockCommand] of such a request, or says in a [Refusal] why not, and
// [LockCommand.Append] and [LockCommand.AppendRead] write the replies that the library expects.
package adopt
