package evaluate

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/results/buckets"
	"github.com/csenv/csenv/envserver/score"
)

// keep opens the store and chooses the run's UID. A run that was interrupted is continued. A
// complete one is reused if the user named its store, and otherwise played again.
func (e *evalCommand) keep(ctx context.Context, run *v1alpha1.EvaluationRun, o *local.Options,
	named bool) (closeStore func(), err error) {
	base, err := local.ComputeUID(run, o.Kind)
	if err != nil {
		return nil, err
	}
	run.UID = base
	if e.store == source.NoStore {
		return func() {}, nil
	}
	if o.Store, err = buckets.Open(ctx, e.store); err != nil {
		return nil, err
	}
	o.Location = e.store
	unlock := func() {}
	closeStore = func() {
		unlock()
		_ = o.Store.Close()
	}
	key, err := local.MachineKey()
	if err != nil {
		view.WriteParagraph(e.errs, "", fmt.Sprintf("%v. The episodes are stored, but no leaderboard ranks them: set "+
			"%s to a file that can be written", err, envvars.EvalKeyFile))
	}
	keyOf := func(uid types.UID) ed25519.PrivateKey {
		if key == nil {
			return local.PublicSeedKey(uid)
		}
		return key
	}
	run.UID, o.Shards, err = e.turn(ctx, o.Store, run, base, named, keyOf)
	if folder := strings.TrimPrefix(e.store, "file://"); err == nil && !strings.Contains(folder, "://") {
		folder = filepath.Join(folder, results.RunFolder(run.Namespace, run.Name, string(run.UID)))
		unlock, err = cli.LockFolder(folder)
	}
	if err != nil {
		closeStore()
		return nil, err
	}
	o.LedgerKey = keyOf(run.UID)
	return closeStore, nil
}

// turn returns the UID of the latest play of a run that is stored with the key of this call, and
// the number of its shards, or the UID of the next play and 0.
func (e *evalCommand) turn(ctx context.Context, store *results.Store, run *v1alpha1.EvaluationRun, base types.UID,
	named bool, keyOf func(types.UID) ed25519.PrivateKey) (types.UID, int, error) {
	stored, err := store.Runs(ctx)
	if err != nil {
		return "", 0, err
	}
	folder := func(uid types.UID) string { return results.RunFolder(run.Namespace, run.Name, string(uid)) }
	uid, next, m := types.UID(""), base, results.Manifest{}
	for n := 1; slices.Contains(stored, folder(next)); n++ {
		found, err := store.Manifest(ctx, folder(next))
		if ctx.Err() != nil {
			return "", 0, ctx.Err()
		}
		if err != nil {
			view.WriteParagraph(e.errs, "", fmt.Sprintf("%v: %s is played again beside it", err, run.Name))
		} else if found.Plan.LedgerKey == score.FormatPublicKey(keyOf(next).Public().(ed25519.PublicKey)) {
			uid, m = next, found
		}
		next = deriveUID(base, n)
	}
	if uid == "" || e.fresh {
		if next != base && !e.fresh {
			view.WriteParagraph(e.errs, "", fmt.Sprintf("%s is stored with the key of another machine or of an older "+
				"csenv, so it is played again: with that machine's key in %s it would be continued", run.Name,
				envvars.EvalKeyFile))
		}
		return next, 0, nil
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
