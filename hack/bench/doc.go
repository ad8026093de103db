// Package bench compares the WebSocket and JSON libraries that could carry the env server's hot
// path: one small action in, one observation of about a kilobyte out. It is a module of its own, so
// that the candidates that lost weigh nothing on the product. README.md holds the figures and the
// choice.
package bench
