// Package resp is the relay: it carries each client connection to the upstream Redis over a connection of its own, byte for
// byte and in both directions, and lets a handler answer the commands that are ours, in order among the upstream's replies.
//
// Two goroutines serve a connection. The pump, which is redcon's own goroutine inside Session.Read, finds the requests in the
// client's bytes (requestScanner), forwards them, and returns to redcon only complete and validated commands of ours. The copier
// carries the upstream's bytes to the client and counts the replies (replyScanner).
//
// A command of ours runs when everything before it was answered: known by counting where the connection is regular, and otherwise by a
// marker, an unknown command that the upstream refuses in its turn. What is known of a connection besides (transaction,
// subscriptions, RESP3, authentication, CLIENT REPLY) is in state.
package resp
