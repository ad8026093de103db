package run

import (
	"context"
	"sync"

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
	// advance counts what is new, checks whether the run has ended, and has the rest played.
	advance(d *decision, s snapshot) evaluation.Outcome
	// end completes the status of a run that has ended.
	end(d *decision, s snapshot)
	// traits are constant.
	traits() traits
}

// traits are the properties of a source that messages and conditions depend on.
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

// inOrder runs checks until one ends the run, and returns the outcome of the last that it ran.
func inOrder(d *decision, s snapshot, checks ...func(*decision, snapshot) evaluation.Outcome) evaluation.Outcome {
	var o evaluation.Outcome
	for _, check := range checks {
		if o = check(d, s); o.Ended() {
			break
		}
	}
	return o
}

// forEach calls f with each item, in order and so many at a time. All calls together have
// requestBudget.
func forEach[T any](ctx context.Context, items []T, width int, f func(context.Context, T)) {
	ctx, cancel := context.WithTimeout(ctx, requestBudget)
	defer cancel()
	var group sync.WaitGroup
	slots := make(chan struct{}, width)
	for _, item := range items {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			f(ctx, item)
		})
	}
	group.Wait()
}
