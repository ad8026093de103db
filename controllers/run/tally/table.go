package tally

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// AddRows adds the rows of the shards that were counted to a table of scenarios, instead of those
// that the table has of them.
func AddRows(table *score.ScenarioTable, plan score.Plan, f Result) *score.ScenarioTable {
	var fresh, others score.IndexSet
	for _, shard := range f.Counted {
		fresh.Add(int64(shard.Index))
	}
	for shard := range int64(plan.Shards) {
		if !fresh.Contains(shard) {
			others.Add(shard)
		}
	}
	table.Keep(plan, others)
	for _, ledger := range f.Ledgers {
		table.Fold(ledger)
	}
	return table
}

// ReadTable reads a table. One that can't be read is empty, which doesn't match any sums.
func ReadTable(object *corev1.ConfigMap) *score.ScenarioTable {
	table := &score.ScenarioTable{}
	if object != nil && table.UnmarshalText([]byte(object.Data[v1alpha1.ScoresKey])) != nil {
		return &score.ScenarioTable{}
	}
	return table
}
