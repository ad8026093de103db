// Package promtool holds what config/prometheus says to the programs that read it: the kinds of the
// Prometheus operator, promtool's check of every query, and alerts_test.yaml, in which promtool
// plays series and looks at which alerts fire.
//
// It is a module of its own, because promtool brings all of Prometheus along: its first build takes
// some minutes.
package promtool
