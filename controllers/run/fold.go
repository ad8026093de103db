package run

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// The reasons for which a summary is refused: the values of a metric's label.
const (
	refusedMalformed = "malformed"
	refusedSignature = "signature"
	refusedForeign   = "foreign"
	refusedGrader    = "grader"
	refusedEpisodes  = "episodes"
	refusedReplayed  = "replayed"
)

// folding is what a pass makes of the pods that have succeeded.
type folding struct {
	sums      score.Accumulator
	completed score.IndexSet
	// counted are the shards that this pass has added, with the time that each took to play.
	counted []countedShard
	refused []refusal
	// ledgers are those of the shards in counted, or of the segments of rollouts that this pass has
	// added.
	ledgers []*score.Ledger
	// errored is the number of errored episodes in those segments.
	errored int64
	// plan is what summaries are checked against. planErr is why there is none.
	plan    score.Plan
	planErr error
	// took is how long the checking and adding took.
	took time.Duration
}

type countedShard struct {
	index    int
	duration time.Duration
	// replayed is the number of episodes that ended again, unreported the number of those begun
	// beyond what the runner accounts for.
	replayed, unreported int64
	// errored is the number of episodes that were given up, by class.
	errored map[string]int64
}

// suspect reports whether the servers saw more of the shard's episodes than its runner tells of.
func (c countedShard) suspect() bool { return c.replayed > 0 || c.unreported > 0 }

// refusal is a summary that is not counted. Its Job will not play the index again, for the pod
// succeeded: another Job has to.
type refusal struct {
	pod    *corev1.Pod
	reason string
	err    error
}

// fold adds the summaries of the pods that have succeeded to the sums so far, each shard once. It
// changes none of its arguments but sums.
func fold(plan score.Plan, sums score.Accumulator, completed score.IndexSet, list []corev1.Pod) folding {
	f := folding{sums: sums, completed: completed.Clone()}
	for i := range list {
		pod := &list[i]
		if pod.Status.Phase != corev1.PodSucceeded {
			continue
		}
		shard, err := shardOf(pod)
		if err == nil && f.completed.Contains(int64(shard)) {
			continue
		}
		var ledger *score.Ledger
		var summary score.Summary
		if err == nil {
			ledger, summary, err = readSummary(plan, shard, pods.Terminated(pod, runnerContainer).Message)
		}
		if err != nil {
			f.refused = append(f.refused, refusal{pod: pod, reason: refusalReason(err), err: err})
			continue
		}
		f.sums.FoldSummary(ledger, summary)
		f.completed.Add(int64(shard))
		f.ledgers = append(f.ledgers, ledger)
		f.counted = append(f.counted, countedShard{
			index: shard, duration: played(pod), replayed: ledger.Replayed, errored: erroredByClass(summary),
			unreported: max(0, ledger.Opened-ledger.Scored-ledger.Failed-summary.ErroredEpisodes()-summary.Retried),
		})
	}
	return f
}

func erroredByClass(summary score.Summary) map[string]int64 {
	classes := map[string]int64{}
	for _, class := range summary.Errored {
		classes[class.Class] += class.Episodes.Len()
	}
	return classes
}

// replayNote lists which of the shards that were just counted were played more than their runners
// tell, "" if none was. The figures stand: only the first end of an episode is in them.
func replayNote(counted []countedShard, run *v1alpha1.EvaluationRun) string {
	var shards score.IndexSet
	var replayed, unreported int64
	for _, shard := range counted {
		if shard.suspect() {
			shards.Add(int64(shard.index))
			replayed += shard.replayed
			unreported += shard.unreported
		}
	}
	if shards.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("In shards %s, %d episodes ended again and %d more were begun than the runners report; first "+
		"ends alone are counted. A runner that failed and was played again "+
		"explains it: see `kubectl get pods -n %s -l %s=%s`. Without one, somebody else plays the run's episodes "+
		"against the pool: find out who may reach it.",
		pods.Quote(shards.String()), replayed, unreported, run.Namespace, v1alpha1.LabelRun, run.Name)
}

// readSummary decodes a termination message and proves that the pool graded the shard's episodes as
// planned.
func readSummary(plan score.Plan, shard int, message string) (*score.Ledger, score.Summary, error) {
	summary, err := score.DecodeSummary([]byte(message))
	if err != nil {
		return nil, summary, err
	}
	key, err := score.ParsePublicKey(plan.LedgerKey)
	if err != nil {
		return nil, summary, fmt.Errorf("%w: %w", score.ErrSignature, err)
	}
	ledger, err := summary.Ledger.Verify(key)
	if err != nil {
		return nil, summary, err
	}
	return ledger, summary, plan.Check(shard, ledger, summary)
}

func refusalReason(err error) string {
	for reason, sentinel := range map[string]error{
		refusedSignature: score.ErrSignature,
		refusedForeign:   score.ErrForeign,
		refusedGrader:    score.ErrGrader,
		refusedEpisodes:  score.ErrEpisodes,
		refusedReplayed:  errReplayed,
	} {
		if errors.Is(err, sentinel) {
			return reason
		}
	}
	return refusedMalformed
}

// shardOf is the shard that a pod plays: its Job's completion index counts within the Job's shards.
func shardOf(pod *corev1.Pod) (int, error) {
	text := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	index, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %q is not an index", batchv1.JobCompletionIndexAnnotation, text)
	}
	shards, err := score.ParseIndexSet(pod.Annotations[annotationShards])
	if err != nil {
		return 0, fmt.Errorf("annotation %s: %w", annotationShards, err)
	}
	shard, ok := shards.At(index)
	if !ok {
		return 0, fmt.Errorf("annotation %s: %d is beyond the %d shards of annotation %s",
			batchv1.JobCompletionIndexAnnotation, index, shards.Len(), annotationShards)
	}
	return int(shard), nil
}

// played is the time that the runner's container took.
func played(pod *corev1.Pod) time.Duration {
	end := pods.Terminated(pod, runnerContainer)
	return end.FinishedAt.Sub(end.StartedAt.Time)
}

// refuses reports whether the pod's summary is refused.
func (f folding) refuses(pod *corev1.Pod) bool {
	return slices.ContainsFunc(f.refused, func(r refusal) bool { return r.pod.UID == pod.UID })
}
