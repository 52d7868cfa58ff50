// Package lab is the fault laboratory of the integration tests. They start the built binary as an
// operator does, import no package of the project, and check only what a client sees on a socket.
// lab starts upstreams, masters and proxies as processes of their own, puts relays or network
// namespaces between them, and breaks them as real masters, networks, clocks and clients break.
//
// [Start] starts a whole deployment; [StartRedis], [StartProxy], [StartRelay] and [NewNet] start a
// part of one. A [Redis] restarts empty, with an old dump or with its files, and refuses commands
// in all ways of Redis; its own [Clock] may step or run fast. A [Relay] freezes, delays, narrows,
// cuts and refuses connections, and holds one chosen command. A [Net] is a network of its own that
// loses packets. A [Conn] is a client that returns errors, for any goroutine; the errors of a
// [Client] fail the test.
//
// A busy machine must not fail a test. A wait is for an event, with a generous limit ([Poll],
// [Patience]). [Idle] shows that a process has done all its work, and [Starvation] that it waited
// for a processor.
//
// A function with a testing.TB fails the test and belongs on the test's goroutine, unless its
// comment says otherwise. All processes end with the test that started them.
package lab
