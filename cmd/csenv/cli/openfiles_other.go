//go:build !unix

package cli

import "errors"

// OpenFiles returns the limit of open files of this process.
func OpenFiles() (uint64, error) {
	return 0, errors.New("the limit of open files can't be read on this system")
}

// LockFolder locks nothing: this system has no advisory locks.
func LockFolder(string) (unlock func(), err error) { return func() {}, nil }

// IsAbandoned knows nothing: this system has no advisory locks.
func IsAbandoned(string) bool { return false }
