// Package respio reads replies and writes commands of Redis' protocol, for clients.
//
// [Limits.Parse] reads a reply from bytes that are already in memory and never waits: it is for
// connections that an event loop reads. A [Reader] reads replies from a stream, and no byte beyond
// them. Both check their [Limits], so that a server cannot use up the memory of its client.
// [AppendCommand] writes a command.
//
// The package imports no other one of the project, and every folder may import it. The relay does
// not: it forwards replies without reading them.
package respio
