package tally

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/envserver/score"
)

// AddFlawless adds the shards without errored episodes that this pass has counted to a second sum,
// which begins with the first shard that has such episodes. It returns nil if the sum stays as it
// was before the pass.
func AddFlawless(before *v1alpha1.Shards, f Result) (*v1alpha1.CountedShards, error) {
	flawed := false
	for _, shard := range f.Counted {
		flawed = flawed || shard.isFlawed()
	}
	if len(f.Counted) == 0 || before.Flawless == nil && !flawed {
		return nil, nil
	}
	sums, done, err := ParseCounted(ptr.Deref(before.Flawless, v1alpha1.CountedShards{
		CompletedIndexes: before.CompletedIndexes, Accumulator: before.Accumulator}))
	if err != nil {
		return nil, err
	}
	for i, shard := range f.Counted {
		if !shard.isFlawed() {
			sums.FoldSummary(f.Ledgers[i], f.Summaries[i])
			done.Add(int64(shard.Index))
		}
	}
	text, err := sums.MarshalText()
	if err != nil {
		return nil, fmt.Errorf("encoding the sums of shards without errors: %w", err)
	}
	return &v1alpha1.CountedShards{CompletedIndexes: done.String(), Accumulator: string(text)}, nil
}

// Expected is what the summaries of a run are checked with.
type Expected struct {
	Plan   score.Plan
	Cipher cipher.AEAD // of sealed ledgers, nil if the pool's key isn't known
	// Sessions is the number of sessions of a runner.
	Sessions int64
	// Resumed is true of a run that was suspended, which the Job controller doesn't count.
	Resumed bool
}

// FoldSummaries adds the summaries of the pods whose runner has succeeded to the sums, each shard
// once. It changes only sums. Sealed ledgers wait while there is no cipher for them.
func FoldSummaries(of Expected, sums score.Accumulator, completed score.IndexSet, list []corev1.Pod) Result {
	f := Result{Sums: sums, Completed: completed.Clone(), of: of}
	for i := range list {
		pod := &list[i]
		if !runner.HasSucceeded(pod) {
			continue
		}
		shard, err := runner.ReadShard(pod)
		if err == nil && f.Completed.Contains(int64(shard)) || LacksSummary(pod) {
			continue
		}
		var ledger *score.Ledger
		var summary score.Summary
		if err == nil {
			ledger, summary, err = of.readSummary(shard, pods.FindTerminatedState(pod, runner.Container).Message)
		}
		if errors.Is(err, errNoCipher) {
			continue
		}
		switch {
		case err != nil:
			f.Refused = append(f.Refused, Refusal{Pod: pod, Reason: classifyRefusal(err), Err: err})
		case summary.Unplayed > 0:
			f.stop(Stopped{shard, pod, ledger, summary})
		default:
			f.add(shard, pod, ledger, summary)
			f.Completed.Add(int64(shard))
		}
	}
	f.Stopped = slices.DeleteFunc(f.Stopped, func(s Stopped) bool { return f.Completed.Contains(int64(s.Shard)) })
	return f
}

// stop notes a stopped shard. A runner that has continued it has played more.
func (f *Result) stop(s Stopped) {
	for i, other := range f.Stopped {
		if other.Shard == s.Shard {
			if s.summary.Unplayed < other.summary.Unplayed {
				f.Stopped[i] = s
			}
			return
		}
	}
	f.Stopped = append(f.Stopped, s)
}

// maxAttempts is the maximum of retries.episodeAttempts.
const maxAttempts = 10

// countUnreported counts the attempts that servers have begun and no runner reports. Attempts of
// runners that were stopped have no report, and are known to the last one as begun. They count as
// theirs only if the shard had such runners: all attempts at an episode for each of a runner's
// sessions, or one at every second episode of the shard, for those that it had repeated before. A
// budget leaves each episode that isn't played begun at most once.
func countUnreported(l *score.Ledger, s score.Summary, stopped, sessions int64) int64 {
	ended := l.Scored + l.Failed + s.ErroredEpisodes()
	planned := ended + s.Unplayed
	known := min(s.Begun, stopped*max(min(sessions, planned)*maxAttempts, planned/2)+s.Unplayed)
	return max(0, l.Opened-ended-s.Retried-known)
}

func countErrored(summary score.Summary) map[string]int64 {
	classes := map[string]int64{}
	for _, class := range summary.Errored {
		classes[class.Class] += class.Episodes.Len()
	}
	return classes
}

// errNoCipher means that a sealed ledger can't be opened for now.
var errNoCipher = errors.New("the pool's key is not known")

// LacksSummary reports whether the message of a pod whose runner has succeeded is empty or was cut,
// as by a node that fails while it is written. Nobody forges such a message.
func LacksSummary(pod *corev1.Pod) bool {
	_, err := score.DecodeSummary([]byte(pods.FindTerminatedState(pod, runner.Container).Message))
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// readSummary decodes a termination message and checks that the pool graded the planned episodes.
func (e Expected) readSummary(shard int, message string) (*score.Ledger, score.Summary, error) {
	summary, err := score.DecodeSummary([]byte(message))
	if err != nil {
		return nil, summary, err
	}
	if summary.Ledger.IsSealed() && e.Cipher == nil {
		return nil, summary, errNoCipher
	}
	if summary.Ledger, err = summary.Ledger.Open(e.Cipher); err != nil {
		return nil, summary, fmt.Errorf("%w: %w", score.ErrSignature, err)
	}
	key, err := score.ParsePublicKey(e.Plan.LedgerKey)
	if err != nil {
		return nil, summary, fmt.Errorf("%w: %w", score.ErrSignature, err)
	}
	ledger, err := summary.Ledger.Verify(key)
	if err != nil {
		return nil, summary, err
	}
	return ledger, summary, e.Plan.Check(shard, ledger, summary)
}
