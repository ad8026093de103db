package observe

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// Until a run is complete whose pool withholds scores, the sums in its status and its table are
// sealed, and its status has no figures of scores: one that has failed may be resumed. A pass reads
// and decides as if they were open.

// readSealed opens the sums in the status of a run that isn't complete. A pool that is gone with
// its key leaves them sealed, and then they can't be read.
func (r *Reader) readSealed(ctx context.Context, s *snapshot.Snapshot) error {
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
