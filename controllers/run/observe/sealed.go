package observe

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// Until a run is complete whose pool withholds scores, the sums in its status and its table are
// sealed, and its status has no figures of scores: one that has failed may be resumed. A pass reads
// and decides as if they were open.

// readSealed opens the sums in the status of a run that isn't complete. A pool that is gone with
// its key leaves them sealed, and then they can't be read.
func (r *Reader) readSealed(ctx context.Context, s *Snapshot) error {
	made, complete := s.Run.Status.Provenance, meta.IsStatusConditionTrue(s.Run.Status.Conditions,
		v1alpha1.ConditionComplete)
	if made == nil || s.Run.Status.Shards == nil || complete {
		return nil
	}
	s.Withheld = s.Env != nil && s.Env.Spec.Runs.Scores == v1alpha1.ScoresInResults ||
		score.IsSealed(s.Run.Status.Shards.Accumulator)
	public := made.LedgerKey
	if public == "" {
		public = s.PublicKey()
	}
	secrets, err := r.Keys.Secrets(ctx, evaluation.PoolOf(s.Run), public)
	switch {
	case err == nil:
		s.Cipher = secrets.Scores
	case s.Withheld && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the key of sealed scores: %w", err)
	}
	s.OpenFigures()
	return nil
}

// sums are the texts of a status that hold sums.
func sums(status *v1alpha1.EvaluationRunStatus) []*string {
	texts := []*string{&status.Shards.Accumulator}
	if status.Shards.Flawless != nil {
		texts = append(texts, &status.Shards.Flawless.Accumulator)
	}
	return texts
}

// OpenFigures opens the sums of the run and writes its figures. Sums that were edited stay as they
// are, and the rules report them.
func (s Snapshot) OpenFigures() {
	status := &s.Run.Status
	if !s.seals(*status) {
		return
	}
	for _, text := range sums(status) {
		if opened, err := score.OpenText(*text, string(s.Run.UID), s.Cipher); err == nil {
			*text = opened
		}
	}
	if sums, done, err := tally.ReadCounted(s.Run); err == nil {
		progress := status.Progress
		evaluation.WriteFigures(status, sums, done)
		status.Progress = progress
	}
}

// SealStatus seals the status of a run that isn't complete.
func (s Snapshot) SealStatus(status v1alpha1.EvaluationRunStatus) v1alpha1.EvaluationRunStatus {
	if !s.seals(status) || status.Shards == nil {
		return status
	}
	sealed := status.DeepCopy()
	for _, text := range sums(sealed) {
		*text = score.SealText(*text, string(s.Run.UID), s.Cipher)
	}
	evaluation.HideScores(sealed)
	return *sealed
}

// SealTable seals the text of the table of a run with a status that isn't complete.
func (s Snapshot) SealTable(text string, status v1alpha1.EvaluationRunStatus) string {
	if !s.seals(status) {
		return text
	}
	return score.SealText(text, string(s.Run.UID), s.Cipher)
}

func (s Snapshot) seals(status v1alpha1.EvaluationRunStatus) bool {
	return s.Withheld && s.Cipher != nil && !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionComplete)
}

// openTable opens the table of a run that isn't complete.
func (s *Snapshot) openTable(table *corev1.ConfigMap) {
	if table == nil || s.Cipher == nil {
		return
	}
	s.SealedTable = score.IsSealed(table.Data[v1alpha1.ScoresKey])
	if text, err := score.OpenText(table.Data[v1alpha1.ScoresKey], string(s.Run.UID), s.Cipher); err == nil {
		table.Data[v1alpha1.ScoresKey] = text
	}
}
