// Package resp is the relay: it carries each client connection to the upstream Redis over a
// connection of its own, byte for byte and in both directions, and lets a handler answer the lock
// commands, in order among the upstream's replies. [Server] accepts the connections; each is a
// [Session].
//
// A GET on a plain socket travels like this. The loop (internal/netpoll) finds the client's socket
// ready, reads it, and calls runner.readOnLoop, which calls the pump. pump.scan finds that the
// bytes are whole requests without a lock command (internal/scan), counts the expected replies,
// and writes the bytes to the upstream. When the answer comes, the loop reads the upstream's
// socket and calls copier.relayOnLoop, which counts replies (internal/protocol) and writes the
// bytes to the client (outbound). No goroutine is woken, and bytes are copied only from socket to
// socket.
//
// A LOCK stops the pump. If everything before it is answered and the connection's standing is
// known, the runner gives it to [Options].Begin, and the loop goes on with other clients. The
// goroutine or loop that completes the command calls done: that writes the reply between two
// frames of the upstream, and the pump goes on on the loop. The loop watches the client all the
// while, and no goroutine is woken.
//
// Otherwise, and for commands that Begin does not take, a goroutine (pump.run) goes on:
// pump.prepare waits until everything before the command is answered and the standing is known, if
// necessary by a query to the upstream (ask.go); the handler runs; its reply is written; the pump
// processes the bytes that the client has sent meanwhile; then the loop watches again.
//
// A connection ends by the transitions of its lifecycle: open, draining, half-closed, lingering,
// closed.
//
// [Loops] also watch other connections: the lanes to the masters.
//
// "OnLoop" in a name means that the code runs on a loop and must not block. redcon's own server
// serves TLS connections, and all of them on systems without loops, on goroutines: redcon.go.
package resp
