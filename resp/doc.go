// Package resp is the relay: it carries each client connection to the upstream Redis over a
// connection of its own, byte for byte and in both directions, and lets a handler answer the lock
// commands, in order among the upstream's replies. [Server] accepts the connections; each is a
// [Session].
//
// A GET on a plain socket travels like this. The loop (internal/netpoll) finds the client's socket
// ready, reads it, and calls pump.readOnLoop, which calls the pump. pump.scan finds that the
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
// necessary by a query to the upstream (wait.go); the handler runs; its reply is written; the pump
// processes the bytes that the client has sent meanwhile; then the loop watches again.
//
// With [Options].Judge the pump forwards no byte of a request before it is judged: the rest of the
// client's bytes stays in its buffer. A request that is taken runs like a LOCK. If the upstream
// cannot be dialled, [Options].Alone may answer the requests that pass (runner.standIn).
//
// # The state of a connection
//
// A connection as a whole has one state, that of its lifecycle: open, draining, ending,
// half-closed, lingering, closed. Each cause of an end changes it as the table transitions says.
// Beside it the parts of a [Session] have these ten flags:
//
//   - lifecycle.quit: QUIT was forwarded, so the client ended the connection itself.
//   - Session.running: a lock command runs.
//   - pump.caughtUp: the pump has forwarded all bytes that it has read, and no lock command was
//     among them.
//   - alone.ever: Options.Alone has answered, so the connection is never relayed.
//   - begun.arrived: bytes came while a command ran.
//   - waiting.gaveUp: the upstream's input was ended while a query waited for its answer.
//   - lockConn.closed: the handler has closed the connection.
//   - progress.writing: a write to the client is under way.
//   - outbound.between: the bytes written to the client end between two frames.
//   - outbound.noReply: frame boundaries are unknown, so no reply can be inserted.
//
// The next task of a part is an enum of its own: pump.step and pump.reading, begun.phase,
// readAhead.phase.
//
// The rooms have flags of their own. internal/scan: the place in a request, and of one that is not
// judged yet; the stage of a reply.
// internal/protocol: the Standing, which is the upstream's word; the set of changes since;
// garbled, resp3 and withoutHello of a Conn; the stage of the answers, and whether the request
// after CLIENT REPLY SKIP was answered. internal/netpoll: the state of each direction of a socket,
// whether more may be read, and whether a writer waits.
//
// [Loops] also watch other connections: the lanes to the masters.
//
// "OnLoop" in a name means that the code runs on a loop and must not block. redcon's own server
// serves TLS connections, and all of them on systems without loops, on goroutines: redcon.go.
package resp
