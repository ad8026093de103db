package source

import (
	"context"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// Baseline reads a stored run to compare with: its name in the store of a location, or STORE/NAME.
// The error says what is stored instead.
func Baseline(ctx context.Context, location, name string) (evaluation.Baseline, error) {
	if path.IsAbs(name) || strings.HasPrefix(name, ".") || strings.Contains(name, "://") {
		location, name = strings.TrimSuffix(path.Dir(name), "/"), path.Base(name)
	}
	s, err := OpenStored(ctx, location)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	defer s.Close()
	return s.baseline(ctx, name)
}

// baseline reads a run of the store, without a comparison of its own.
func (s *Stored) baseline(ctx context.Context, name string) (evaluation.Baseline, error) {
	folders, err := s.Runs(ctx)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	folder, err := s.folder(ctx, folders, name)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	loaded, err := s.read(ctx, folder)
	if err != nil {
		return evaluation.Baseline{}, err
	}
	return evaluation.Baseline{Run: loaded.EvaluationRun, Table: loaded.table}, nil
}

// compare compares a complete stored run with its baseline and checks its thresholds again. They
// wait if the baseline isn't stored here.
func (s *Stored) compare(ctx context.Context, loaded *LoadedRun) error {
	run := loaded.EvaluationRun
	complete := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionComplete)
	if run.Spec.BaselineRef == nil || complete.Status != metav1.ConditionTrue {
		return nil
	}
	with, err := s.baseline(ctx, run.Spec.BaselineRef.Name)
	if err != nil {
		with = evaluation.Baseline{}
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(run.Status.Shards.Accumulator)); err != nil {
		return fmt.Errorf("reading the sums of run %s: %w", run.Name, err)
	}
	run.Status.Baseline = evaluation.Compare(run, loaded.table, with)
	meta.SetStatusCondition(&run.Status.Conditions, evaluation.ComparedCondition(*run.Status.Baseline, with))
	for _, c := range evaluation.Conditions(run, run.Status, sums, evaluation.Outcome{State: evaluation.Completed,
		Reason: complete.Reason, Message: complete.Message}) {
		meta.SetStatusCondition(&run.Status.Conditions, c)
	}
	return nil
}
