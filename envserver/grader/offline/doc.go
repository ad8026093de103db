// Package offline judges replies by rules alone: no network, no clock and no floating point, so the
// same bytes earn the same points on every machine.
package offline
