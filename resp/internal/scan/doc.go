// Package scan finds requests and replies in the bytes of the Redis protocol, which may come in
// any pieces. It knows no sockets and keeps very few of the bytes.
//
// [Requests] cuts a client's bytes exactly where Redis cuts them (networking.c); [Replies] cuts an
// upstream's, RESP2 and RESP3. [CommandReader] reads requests by the same rules, for a server that
// carries them out.
package scan
