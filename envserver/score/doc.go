// Package score is the arithmetic of an evaluation run: which episodes it has, what an environment
// pod adds up while it grades them, and the figures that come out. Environment pods, runners and
// the controller share it, and it knows nothing of any of them.
//
// A [Plan] lists episodes by arithmetic alone. An environment pod keeps a [Ledger] for each (run,
// shard), exact integers only, and signs it. A runner relays the [SignedLedger] in its [Summary],
// which fits into a container's termination message. The controller verifies it, checks it against
// the plan and folds it into an [Accumulator], whose size doesn't depend on the number of episodes
// or scenarios.
//
// Episodes that nobody has planned, for trainers bring them, come in a [Segment]: a pod keeps a
// [Tally] of them, and the controller merges the ledgers.
//
// Everything that is added is an integer, so that folding is associative and commutative: the
// figures are the same bytes in whatever order shards end. Floating point appears once, at the very
// end, in [Accumulator.Figures].
//
// Units: scores are micro-points ([One] is the full score), points of a dimension are milli-points.
package score
