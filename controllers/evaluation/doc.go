// Package evaluation computes the plan, the figures, the comparison with a baseline and the
// conditions of an EvaluationRun.
//
// Its functions are pure. The controller, `csenv eval` and the commands that read stored episodes
// all use them, so that the same manifest has the same outcome wherever it is played.
package evaluation
