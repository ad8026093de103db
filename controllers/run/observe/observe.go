// Package observe reads everything that a pass over a run needs into a Snapshot. It decides
// nothing, and has no client that writes.
package observe

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/tally"
)

// readCollection reads the servers' segments and, until the run has ended, its table.
func (r *Reader) readCollection(ctx context.Context, s *Snapshot) error {
	if s.Closing || evaluation.Ended(s.Run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if s.Run.Status.Provenance == nil {
		return r.readReport(ctx, s)
	}
	if err := r.readSegments(ctx, s); err != nil {
		return err
	}
	goal := tally.ReadGoal(s.Run)
	completes := goal > 0 && tally.BoundCollected(s.Run, s.Segments) >= goal || IsDeadlineOver(s.Run, s.Job, s.Now)
	return r.readScores(ctx, s, completes)
}

// TakeSnapshot reads everything that a pass needs.
func (r *Reader) TakeSnapshot(ctx context.Context, key types.NamespacedName) (Snapshot, error) {
	s := Snapshot{Now: r.Clock.Now(), Version: r.Version}
	run := &v1alpha1.EvaluationRun{}
	err := r.Cache.Get(ctx, key, run)
	if client.IgnoreNotFound(err) != nil {
		return s, fmt.Errorf("reading the run: %w", err)
	}
	if err == nil && run.DeletionTimestamp.IsZero() {
		s.Run = run
	}
	if err := r.readPods(ctx, key, &s); err != nil {
		return s, err
	}
	if s.Run == nil {
		return s, nil
	}
	if err := r.readPool(ctx, &s); err != nil {
		return s, err
	}
	if err := r.readNeighbours(ctx, &s); err != nil {
		return s, err
	}
	if IsExternal(run) {
		return s, r.readCollection(ctx, &s)
	}
	return s, r.readJob(ctx, &s)
}

// readJob reads the run's Job and, until the run has ended, its plan, its table and the servers'
// counts.
func (r *Reader) readJob(ctx context.Context, s *Snapshot) error {
	planMap, job := &corev1.ConfigMap{}, &batchv1.Job{}
	if found, err := r.readOwn(ctx, s, s.Run.Name, job); err != nil {
		return err
	} else if found {
		s.Job = job
	}
	if s.Closing || evaluation.Ended(s.Run.Status.Conditions) {
		return r.readLate(ctx, s)
	}
	if found, err := r.readOwn(ctx, s, runner.PlanName(s.Run), planMap); err != nil {
		return err
	} else if found {
		s.PlanMap = planMap
	}
	if err := errors.Join(r.readRefusal(ctx, s), r.readLostNodes(ctx, s)); err != nil {
		return err
	}
	if _, err := s.StoredPlan(); err != nil || s.Run.Status.Provenance == nil {
		if err := r.readReport(ctx, s); err != nil {
			return err
		}
	}
	if err := r.readScores(ctx, s, len(s.Succeeded) > 0); err != nil {
		return err
	}
	return r.readLive(ctx, s)
}
