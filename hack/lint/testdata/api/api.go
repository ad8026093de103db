// Package api is what score must not import.
package api

// Phase is an enumeration.
type Phase string

// The phases.
const (
	Pending Phase = "Pending"
	Done    Phase = "Done"
)

// Twice is pure, which is a fact that nobody knows when score is read as a dependency.
func Twice(n int) int { return 2 * n }
