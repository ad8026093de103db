// Package faults has a fault of each kind that the tool finds. The comments say what it reports.
package faults

import (
	"errors"
	"fmt"
	"os"
)

var errSentinel = errors.New("sentinel")

func open() error { return errSentinel }

// Errors handles errors badly.
func Errors() error {
	open()                    // want `Error return value is not checked \(errcheck\)`
	os.Remove("excluded.txt") // The config excludes it.
	err := open()
	if err == errSentinel { // want `comparing with == will fail on wrapped errors.*\(errorlint\)`
		return fmt.Errorf("opening: %v", err) // want `non-wrapping format verb.*\(errorlint\)`
	}
	if err := open(); err != nil {
		return nil // want `error is not nil .* but it returns nil \(nilerr\)`
	}
	if err := open(); err != nil {
		return nil //nolint:nilerr // This is the way to say that it's right.
	}
	if err := open(); err != nil {
		return nil //nolint:errcheck // want `\(nilerr\)`
	}
	//nolint:errcheck // The comment covers the whole statement below.
	func() {
		open()
	}()
	open() //nolint:errcheck// want `write //nolint:LINTER // why \(nolintlint\)`
	open() //nolint // want `\(nolintlint\)` `\(errcheck\)`
	return nil
}
