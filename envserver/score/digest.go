package score

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// PlanDigest is a fingerprint of a set of episodes that doesn't depend on their order: the sum
// modulo 2^256 of SHA-256 over each episode's index, task, scenario and seed, and of the word
// pressure where it is played under that (an additive multiset hash: Bellare and Micciancio, "A new
// paradigm for collision-free hashing", 1997). The zero value is the empty set. It lets the
// controller see that a ledger holds exactly the episodes planned, though the ledger lists none of
// them.
type PlanDigest [32]byte

// Add puts an episode into the set. The trial is left out: the pod that grades doesn't know it, and
// the index fixes it.
func (d *PlanDigest) Add(ep PlannedEpisode) { d.AddSet(ep.digest()) }

// Sub takes an episode out of the set.
func (d *PlanDigest) Sub(ep PlannedEpisode) {
	var borrow uint64
	o := ep.digest()
	for i := len(d) - 8; i >= 0; i -= 8 {
		var diff uint64
		diff, borrow = bits.Sub64(binary.BigEndian.Uint64(d[i:]), binary.BigEndian.Uint64(o[i:]), borrow)
		binary.BigEndian.PutUint64(d[i:], diff)
	}
}

// AddSet puts all episodes of another, disjoint set into this one.
func (d *PlanDigest) AddSet(o PlanDigest) {
	var carry uint64
	for i := len(d) - 8; i >= 0; i -= 8 {
		var sum uint64
		sum, carry = bits.Add64(binary.BigEndian.Uint64(d[i:]), binary.BigEndian.Uint64(o[i:]), carry)
		binary.BigEndian.PutUint64(d[i:], sum)
	}
}

// Equal says whether two sets have the same fingerprint.
func (d PlanDigest) Equal(o PlanDigest) bool { return d == o }

func (ep PlannedEpisode) digest() PlanDigest {
	fields := appendFields(nil, ep.Index, ep.Task, ep.Scenario, ep.Seed)
	if ep.Pressure {
		fields = appendFields(fields, "pressure")
	}
	return sha256.Sum256(fields)
}
