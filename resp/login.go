package resp

import (
	"bytes"
	"strings"
)

// defaultUser is who a connection belongs to before any AUTH.
const defaultUser = "default"

// keepUser is the longest name of a user that is kept. Of one with a longer name it is not known who it is.
const keepUser = 128

// loginOf tells who is logged in after an AUTH or HELLO with count arguments, the first few of them in argv, and whether it can change that.
func loginOf(k kind, argv [][]byte, count int) (user string, login bool) {
	at := 0
	option := func(i int, word string) bool { return i < len(argv) && strings.EqualFold(string(argv[i]), word) }
	switch {
	case k == kAuth && count == 2:
		return defaultUser, true
	case k == kAuth && count == 3:
		at = 1
	case k == kHello && count < 5:
		return "", false
	case k == kHello && (count == 5 || count == 7 && option(5, "setname")) && option(2, "auth"):
		at = 3
	case k == kHello && count == 7 && option(2, "setname") && option(4, "auth"):
		at = 5
	}
	if at == 0 || at >= len(argv) || len(argv[at]) > keepUser {
		return "", true
	}
	return string(argv[at]), true
}

// User tells who is logged in on the connection, as the upstream sees it: "default" before any AUTH. It is empty where that is not certain:
// after an AUTH whose own reply could not be told for certain, and after an EXEC that ran a queued one. The next AUTH that is accepted ends
// that, and so does RESET.
func (s *Session) User() string {
	s.st.mu.Lock()
	defer s.st.mu.Unlock()
	return s.st.user
}

// keepsOf tells how much of the current argument is kept. Passwords are not.
func (q *requestScanner) keepsOf() int {
	switch {
	case q.kind == plain || q.index == 0:
		return 0
	case q.kind == kAuth: // AUTH user password
		if q.index == 1 && q.args == 2 {
			return keepUser + 1
		}
		return 0
	case q.kind == kHello: // HELLO 3 AUTH user password, HELLO 3 SETNAME x AUTH user password
		auth := len(q.argv) > 2 && bytes.EqualFold(q.argv[2], []byte("auth"))
		switch {
		case auth && q.index == 3, !auth && q.index == 5:
			return keepUser + 1
		case auth && q.index == 4 || q.index > 5:
			return 0
		}
		return keepNotableArg
	case q.index < keepNotable:
		return keepNotableArg
	}
	return 0
}
