// Package resp is the relay: it carries each client connection to the upstream Redis over a
// connection of its own, byte for byte and in both directions, and lets a handler answer the lock
// commands, in order among the upstream's replies.
//
// A GET on a plain socket travels like this. The loop (internal/netpoll) finds the client's socket
// ready, reads it, and calls Session.useOnLoop: the pump. Session.scan finds that the bytes are
// whole requests and none of them a lock command (internal/scan), counts the replies that are to
// come, and writes the bytes to the upstream. When the answer comes, the loop reads the upstream's
// socket and calls copier.useOnLoop, which counts replies and writes the bytes to the client
// through the clientWriter. No goroutine is woken and nothing is copied but from socket to socket.
//
// A LOCK stops the pump. Where everything before it is answered and the connection's standing is
// known, the loop hands it to Options.Begin (begin.go) and goes on with other clients. Whoever
// completes the command calls done: that writes the reply between two frames of the upstream, and
// the pump goes on on the loop. The loop watches the client all the while, and no goroutine is
// woken.
//
// Otherwise, and for commands that Begin does not take, a goroutine (Session.run) goes on:
// Session.prepare waits until everything before the command is answered and the standing is known,
// if need be by a question to the upstream (question.go, ask.go, standing.go); the handler runs;
// its reply goes out; what the client has sent behind it is dealt with; then the loop watches
// again.
//
// Loops (loops.go) also watch connections that are not a client's: the lanes to the masters.
//
// "onLoop" means that the code runs on a loop and must not block. TLS connections, and all of them
// on systems without loops, are served by redcon's own server, on goroutines: redcon.go.
package resp
