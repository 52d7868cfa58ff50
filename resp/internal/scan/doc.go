// Package scan finds requests and replies in the bytes of the Redis protocol, as they come and in
// whatever pieces. It knows no sockets and keeps next to nothing of the bytes.
//
// Requests cuts a client's bytes exactly where Redis cuts them (networking.c); Replies cuts an
// upstream's, RESP2 and RESP3.
package scan
