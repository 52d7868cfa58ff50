package plain

import "golang.org/x/sys/windows"

// The errors of Windows' sockets. They do not equal those of package syscall that have their
// names.
const (
	errnoRefused = windows.WSAECONNREFUSED
	errnoInUse   = windows.WSAEADDRINUSE
)

// WSAECONNABORTED is missing: it also says that the network was silent.
var errnosReset = []error{windows.WSAECONNRESET}
