package plain

import (
	"errors"
	"slices"
	"syscall"
)

// Refused reports whether an address has no listener.
func Refused(err error) bool { return isAny(err, errnoRefused, syscall.ENOENT) }

// Reset reports whether the other side reset or left a connection.
func Reset(err error) bool { return isAny(err, errnosReset...) }

// InUse reports whether another process listens at an address.
func InUse(err error) bool { return isAny(err, errnoInUse) }

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
