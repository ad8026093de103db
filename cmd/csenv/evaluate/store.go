package evaluate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/results/buckets"
	"github.com/csenv/csenv/envserver/score"
)

// noStore is the value of --results that stores nothing.
const noStore = "none"

// keep opens the store and chooses the run's UID. A run that was interrupted is continued. A
// complete one is reused if the user named its store, and otherwise played again.
func (e *evalCommand) keep(ctx context.Context, run *v1alpha1.EvaluationRun, o *local.Options,
	named bool) (closeStore func(), err error) {
	base, err := local.ComputeUID(run, o.Kind)
	if err != nil {
		return nil, err
	}
	run.UID = base
	if e.store == noStore {
		return func() {}, nil
	}
	if o.Store, err = buckets.Open(ctx, e.store); err != nil {
		return nil, err
	}
	o.Location = e.store
	closeStore = func() { _ = o.Store.Close() }
	if run.UID, o.Shards, err = e.turn(ctx, o.Store, run, base, named); err != nil {
		closeStore()
		return nil, err
	}
	o.LedgerKey = local.LedgerKey(run.UID)
	return closeStore, nil
}

// turn returns the UID of the latest stored play of a run and the number of its shards, or the UID
// of the next play and 0.
func (e *evalCommand) turn(ctx context.Context, store *results.Store, run *v1alpha1.EvaluationRun, base types.UID,
	named bool) (types.UID, int, error) {
	stored, err := store.Runs(ctx)
	if err != nil {
		return "", 0, err
	}
	folder := func(uid types.UID) string { return results.RunFolder(run.Namespace, run.Name, string(uid)) }
	uid, next := types.UID(""), base
	for n := 1; slices.Contains(stored, folder(next)); n++ {
		uid, next = next, deriveUID(base, n)
	}
	if uid == "" || e.fresh {
		return next, 0, nil
	}
	m, err := store.Manifest(ctx, folder(uid))
	if err != nil {
		return "", 0, err
	}
	if !named {
		whole, err := isComplete(ctx, store, folder(uid), m.Plan)
		if whole || err != nil {
			return next, 0, err
		}
	}
	return uid, m.Plan.Shards, nil
}

// deriveUID is the UID of a further play of the same run.
func deriveUID(base types.UID, n int) types.UID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", base, n))
	return types.UID(uuid.NewSHA1(uuid.Nil, sum[:]).String())
}

// isComplete reports whether every episode of a plan is stored with a receipt.
func isComplete(ctx context.Context, store *results.Store, folder string, plan score.Plan) (bool, error) {
	var graded int64
	for e, err := range store.Episodes(ctx, folder) {
		if err != nil && !errors.Is(err, record.ErrNotRecord) {
			return false, err
		}
		if e.Receipt != "" {
			graded++
		}
	}
	return graded >= plan.Episodes(), nil
}
