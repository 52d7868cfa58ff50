//go:build !unix

package main

// maxFiles returns 0: the limit is not known.
func maxFiles() uint64 { return 0 }
