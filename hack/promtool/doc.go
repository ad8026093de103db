// Package promtool tests config/prometheus with the programs that read it: it decodes the objects
// of the Prometheus operator, checks every query with promtool, and runs the alert tests in
// alerts_test.yaml.
//
// It is a separate module, because promtool depends on all of Prometheus: its first build takes
// some minutes.
package promtool
