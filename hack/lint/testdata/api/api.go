// Package api is what score must not import.
package api

// Phase is an enumeration.
type Phase string

// The phases.
const (
	Pending Phase = "Pending"
	Done    Phase = "Done"
)
