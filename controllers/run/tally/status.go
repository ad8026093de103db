package tally

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
)

// ParseCounted reads counted shards of the status.
func ParseCounted(c v1alpha1.CountedShards) (score.Accumulator, score.IndexSet, error) {
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(c.Accumulator)); err != nil {
		return sums, score.IndexSet{}, fmt.Errorf("reading status.shards.accumulator: %w", err)
	}
	done, err := score.ParseIndexSet(c.CompletedIndexes)
	if err != nil {
		return sums, done, fmt.Errorf("reading status.shards.completedIndexes: %w", err)
	}
	return sums, done, nil
}

// ReadCollected reads the sums of the status, and the key that signs the segments.
func ReadCollected(run *v1alpha1.EvaluationRun) (*score.Ledger, ed25519.PublicKey, error) {
	rollouts := ptr.Deref(run.Status.Rollouts, v1alpha1.Rollouts{})
	key, err := score.ParsePublicKey(rollouts.LedgerKey)
	if err != nil {
		return nil, nil, fmt.Errorf("reading status.rollouts.ledgerKey: %w", err)
	}
	data, err := base64.StdEncoding.DecodeString(rollouts.Ledger)
	if err != nil {
		return nil, nil, fmt.Errorf("reading status.rollouts.ledger: %w", err)
	}
	sums := &score.Ledger{}
	if err := sums.UnmarshalBinary(data); err != nil {
		return nil, nil, fmt.Errorf("reading status.rollouts.ledger: %w", err)
	}
	return sums, key, nil
}

// EncodeLedger encodes the sums of collected episodes for the status.
func EncodeLedger(sums *score.Ledger) (string, error) {
	data, err := sums.MarshalBinary()
	return base64.StdEncoding.EncodeToString(data), err
}

// ReadCounted reads the sums and the counted shards from the status.
func ReadCounted(run *v1alpha1.EvaluationRun) (score.Accumulator, score.IndexSet, error) {
	shards := ptr.Deref(run.Status.Shards, v1alpha1.Shards{})
	sums, done, err := ParseCounted(v1alpha1.CountedShards{CompletedIndexes: shards.CompletedIndexes,
		Accumulator: shards.Accumulator})
	sums.Counts = evaluation.ReadCounts(&run.Status)
	return sums, done, err
}
