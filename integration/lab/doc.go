// Package lab is the fault laboratory of the integration tests, which drive the built binary as an
// operator would start it. Nothing in them imports the project: what is checked is what a client
// on a socket can see. lab starts upstreams, masters and proxies as processes of their own, puts
// relays or namespaces of a network between them, and breaks them in the ways that masters,
// networks, clocks and clients break.
//
// Start makes a whole deployment. The parts can be had singly: StartRedis, StartProxy, StartRelay,
// NewNet. A *Redis restarts empty, with an old dump or with its files, and can be made to refuse
// commands in all the ways that Redis knows; one started with a clock of its own has it stepped or
// run fast (Clock). A *Relay freezes, delays, narrows, cuts, refuses, and holds back one chosen
// command. A *Net is a network of its own in which packets get lost. A *Conn is a client that
// returns errors, for any goroutine; a *Client is one whose errors fail the test.
//
// What takes a testing.TB fails the test itself and belongs on the test's goroutine, except where
// it says otherwise. All processes end with the test that started them.
package lab
