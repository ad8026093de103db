package source

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// ErrTable means that the scores by scenario that were found aren't those that were counted.
var ErrTable = errors.New("is not the one that was counted")

// Rankable returns the scores by scenario of a run that may have a place on a board, or why it may
// not. Every rule of what a board may rank is here. The scores are nil if they can't be read: then
// the intervals of the mean decide.
func (r *LoadedRun) Rankable(ctx context.Context) (scores []score.ScenarioScore, reason string) {
	if reason := r.Doubt(); reason != "" {
		return nil, reason
	}
	if evaluation.IsExternal(r.EvaluationRun) {
		return nil, "its trainers chose the episodes, so it shows a training and is no benchmark"
	}
	if !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete) || r.Status.Score == nil {
		return nil, stateOf(r.EvaluationRun)
	}
	if c := meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionPlayedOnce); c != nil &&
		c.Status == metav1.ConditionFalse {
		return nil, c.Message
	}
	scores, err := r.Scores(ctx)
	if errors.Is(err, ErrTable) {
		return nil, err.Error()
	}
	return scores, ""
}

// Doubt says why nobody vouches for the scores of a stored run, "" if somebody does. The
// status of a run in a cluster is written by the operator alone.
func (r *LoadedRun) Doubt() string {
	switch errored := ptr.Deref(r.Status.Episodes, v1alpha1.RunEpisodes{}).Errored; {
	case r.Stored == nil:
		return ""
	case r.Stored.Claimed > 0:
		return fmt.Sprintf("%s stored without a valid receipt: no server vouches for their scores, so they are in no "+
			"figure", view.FormatCount(r.Stored.Claimed, "episode"))
	case r.Signer == "":
		return fmt.Sprintf("nobody vouches for the key of its signatures: add --key %s if a pool that you trust has "+
			"it as its status.ledgerPublicKey", r.key())
	case errored > 0 && meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionComplete):
		return fmt.Sprintf("%s errored, which no receipt proves: the same command with --results plays them again",
			view.FormatCount(int(errored), "episode"))
	}
	return ""
}

// stateOf is the reason of a run's condition Ready.
func stateOf(run *v1alpha1.EvaluationRun) string {
	if c := evaluation.FindState(run.Status.Conditions); c != nil {
		return c.Reason
	}
	return "Pending"
}

// Vouchers are the public keys, as score.FormatPublicKey writes them, whose signatures count on a
// board, each with the words that name its owner.
type Vouchers map[string]string

// unchecked says what the receipts of a pool don't prove. The operator compares the servers' counts
// when a run ends, and no store has the result.
const unchecked = "read from a store, which can't show whether each was played once: the condition PlayedOnce of " +
	"the run in its cluster does"

// NewVouchers returns the key with which csenv eval signs on this machine, and those that a user
// trusts.
func NewVouchers(own string, trusted []string) (Vouchers, error) {
	v := Vouchers{}
	for _, key := range trusted {
		if _, err := score.ParsePublicKey(key); err != nil {
			return nil, fmt.Errorf("reading --key: %w: give a pool's status.ledgerPublicKey", err)
		}
		v[key] = "vouched for by --key, " + unchecked
	}
	if own != "" {
		v[own] = "played by csenv eval on this machine"
	}
	return v, nil
}

// AddPools adds the keys of pools.
func (v Vouchers) AddPools(pools []*v1alpha1.CustomerSupportEnv) {
	for _, pool := range pools {
		if key := pool.Status.LedgerPublicKey; key != "" {
			v[key] = "stored episodes of " + namePool(cluster.NameOf(pool)) + ", " + unchecked
		}
	}
}

func namePool(pool types.NamespacedName) string { return "pool " + pool.String() }

// Signed returns a stored run with the words for the owner of its key, if somebody vouches for it.
func (v Vouchers) Signed(stored *LoadedRun) *LoadedRun {
	signed := *stored
	signed.Signer = v[stored.key()]
	return &signed
}

// key is the public key with which the scores are signed, "" if it isn't recorded.
func (r *LoadedRun) key() string {
	return ptr.Deref(r.Status.Provenance, v1alpha1.Provenance{}).LedgerKey
}

// PoolName is the name of the pool of a run in a cluster, with its namespace, "" for a stored run.
func (r *LoadedRun) PoolName() string {
	if r.Stored != nil || r.Spec.EnvironmentRef.Name == "" {
		return ""
	}
	return evaluation.PoolOf(r.EvaluationRun).String()
}

// WithStored returns a run of the cluster with its stored episodes. They change no figure.
func (r *LoadedRun) WithStored(stored *LoadedRun) *LoadedRun {
	if stored.UID != r.UID {
		return r // the store has another run in its folder
	}
	merged := *r
	merged.Episodes, merged.Lost = stored.Episodes, stored.Lost
	merged.Scores = func(ctx context.Context) ([]score.ScenarioScore, error) {
		scores, err := r.Scores(ctx)
		if err == nil || errors.Is(err, ErrTable) {
			return scores, err
		}
		// The user may not be allowed to read the run's ConfigMap.
		return checkTable(r.EvaluationRun, stored.table)
	}
	return &merged
}

// checkTable returns the scores of a table if it has the fingerprint of the run's status.
func checkTable(run *v1alpha1.EvaluationRun, table *score.ScenarioTable) ([]score.ScenarioScore, error) {
	var sums score.Accumulator
	counted := ptr.Deref(run.Status.Shards, v1alpha1.Shards{}).Accumulator
	if err := sums.UnmarshalText([]byte(counted)); err != nil {
		return nil, fmt.Errorf("reading the sums of run %s: %w", run.Name, err)
	}
	if !sums.Holds(table) {
		return nil, fmt.Errorf("the table of the scores of run %s %w", run.Name, ErrTable)
	}
	return table.Rows(), nil
}
