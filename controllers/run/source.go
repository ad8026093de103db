package run

import (
	"context"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// source is the way in which a run's episodes arrive: in the summaries of a Job's runners, or in
// segments of the pool's servers. A pass chooses it once.
type source interface {
	// read reads what is new, and what only this source needs.
	read(ctx context.Context, r *Reconciler, s *snapshot) error
	// begin writes to the status what the run begins with.
	begin(d *decision, s snapshot) evaluation.Outcome
	// fold adds to the figures what is new and announces what is refused. It returns an outcome
	// that has ended if nothing can be counted.
	fold(d *decision, s snapshot) evaluation.Outcome
	// complete reports whether the episodes that are counted, or refused, end the run.
	complete(d *decision, s snapshot) (evaluation.Outcome, bool)
	// change describes what of the pool no longer is what the run began with, "" if nothing.
	change(d *decision, s snapshot) string
	// overdue reports whether the rest of the episodes can't come any more.
	overdue(d *decision, s snapshot) (evaluation.Outcome, bool)
	// proceed has the rest played or collected, and acknowledges what is counted.
	proceed(d *decision, s snapshot) evaluation.Outcome
	// end writes what only a run that has ended has in its status.
	end(d *decision, s snapshot)
	// traits are constant.
	traits() traits
}

// traits are what messages say of a source.
type traits struct {
	// runners need the pool's token.
	runners            bool
	suspended, resumed string
}

func sourceOf(run *v1alpha1.EvaluationRun) source {
	if run.Spec.Agent.Type == v1alpha1.ExternalAgent {
		return serverSource{}
	}
	return jobSource{}
}
