// Package resp is the relay: it carries each client connection to the upstream Redis over a connection of its own, byte for
// byte and in both directions, and lets a handler answer the lock commands, in order among the upstream's replies.
package resp

import "lockproxy/resp/internal/scan"

// CommandNames are the commands that a Server gives to its handler, in lower case. All others go to the upstream.
var CommandNames = scan.LockCommands
