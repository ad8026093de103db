//go:build unix

package cli

import (
	"syscall"
)

// OpenFiles is how many files this process may have open.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, err
}
