package snapshot

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// listSums are the texts of a status that hold sums.
func listSums(status *v1alpha1.EvaluationRunStatus) []*string {
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
	for _, text := range listSums(status) {
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
	for _, text := range listSums(sealed) {
		*text = score.SealText(*text, string(s.Run.UID), s.Cipher)
	}
	evaluation.ClearScores(sealed)
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

// OpenTable opens the table of a run that isn't complete. The reader keeps the sealed one for later
// passes.
func (s *Snapshot) OpenTable() {
	if s.Scores == nil || s.Cipher == nil || !score.IsSealed(s.Scores.Data[v1alpha1.ScoresKey]) {
		return
	}
	s.SealedTable, s.Scores = true, s.Scores.DeepCopy()
	text := s.Scores.Data[v1alpha1.ScoresKey]
	if opened, err := score.OpenText(text, string(s.Run.UID), s.Cipher); err == nil {
		s.Scores.Data[v1alpha1.ScoresKey] = opened
	}
}
