// Package bench compares WebSocket and JSON libraries for the env server's hot path: a small action
// in, an observation of about a kilobyte out. It is a separate module, so that libraries that
// weren't chosen are no dependencies of csenv. README.md contains the figures and the choice.
package bench
