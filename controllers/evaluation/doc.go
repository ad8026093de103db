// Package evaluation decides what an EvaluationRun comes to: its plan, its figures, its comparison
// with a baseline, its thresholds and its conditions.
//
// It is pure: nothing is read or written but the arguments. The controller, `csenv eval` and the
// commands that read stored episodes all use it, so that the same manifest has the same outcome
// wherever it is played.
package evaluation
