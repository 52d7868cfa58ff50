//go:build !linux

package main

import (
	"errors"
	"syscall"
)

func childAttributes() *syscall.SysProcAttr { return nil }

// raiseFileLimit ends a run at its start, because the measurements read /proc.
func raiseFileLimit() (int, error) { return 0, errors.New("the measurements need Linux") }
