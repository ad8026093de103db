package rules

import (
	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/observe"
)

// source is the way in which a run's episodes arrive: in the summaries of a Job's runners, or in
// segments of the pool's servers. A pass chooses it once.
type source interface {
	// begin writes to the status what the run begins with.
	begin(d *Decision, s observe.Snapshot) evaluation.Outcome
	// advance counts what is new, checks whether the run has ended, and has the rest played.
	advance(d *Decision, s observe.Snapshot) evaluation.Outcome
	// end completes the status of a run that has ended.
	end(d *Decision, s observe.Snapshot)
	// traits are constant.
	traits() traits
}

// traits are the properties of a source that messages and conditions depend on.
type traits struct {
	suspended, resumed string
}

func sourceOf(run *v1alpha1.EvaluationRun) source {
	if observe.IsExternal(run) {
		return serverSource{}
	}
	return jobSource{}
}

// inOrder runs checks until one ends the run, and returns the outcome of the last that it ran.
func inOrder(d *Decision, s observe.Snapshot,
	checks ...func(*Decision, observe.Snapshot) evaluation.Outcome) evaluation.Outcome {
	var o evaluation.Outcome
	for _, check := range checks {
		if o = check(d, s); o.Ended() {
			break
		}
	}
	return o
}
