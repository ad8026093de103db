package objects

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
)

// UnendedField indexes, in a cache, the runs that haven't ended by their pool. Ended ones are left
// out, because there may be thousands of them.
const UnendedField = "unended-runs-of-pool"

// UnendedIndex returns the values of UnendedField.
func UnendedIndex(object client.Object) []string {
	run, ok := object.(*v1alpha1.EvaluationRun)
	if !ok || evaluation.HasEnded(run.Status.Conditions) {
		return nil
	}
	return []string{evaluation.PoolOf(run).String()}
}

// IndexRuns adds UnendedField to a cache, which UnendedRuns needs.
func IndexRuns(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &v1alpha1.EvaluationRun{}, UnendedField, UnendedIndex); err != nil {
		return fmt.Errorf("indexing runs by their pool: %w", err)
	}
	return nil
}

// UnendedRuns returns the runs of all namespaces that are played against a pool and haven't ended.
// They belong to the cache and must not be changed.
func UnendedRuns(ctx context.Context, reader client.Reader, pool types.NamespacedName) ([]v1alpha1.EvaluationRun,
	error) {
	var list v1alpha1.EvaluationRunList
	if err := reader.List(ctx, &list, client.MatchingFields{UnendedField: pool.String()},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the runs of pool %s: %w", pool, err)
	}
	return list.Items, nil
}
