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

// folding is the result of adding summaries or segments to the sums.
type folding struct {
	sums      score.Accumulator
	completed score.IndexSet
	counted   []countedShard // by this pass
	refused   []refusal
	ledgers   []*score.Ledger // of the shards in counted, or of the segments that this pass has added
	summaries []score.Summary // of the shards in counted
	errored   int64           // errored episodes of those segments
}

type countedShard struct {
	index    int
	duration time.Duration
	// replayed is the number of episodes that ended again, unreported that of episodes that the
	// servers began and the runner doesn't report.
	replayed, unreported int64
	errored              map[string]int64 // episodes by class
}

// suspect reports whether the servers counted more episodes than the shard's runner.
func (c countedShard) suspect() bool { return c.replayed > 0 || c.unreported > 0 }

// flawed reports whether episodes of the shard errored.
func (c countedShard) flawed() bool {
	for _, n := range c.errored {
		if n > 0 {
			return true
		}
	}
	return false
}

// refusal is a summary or segment that is not counted. A refused shard is played by another Job,
// since its pod has succeeded.
type refusal struct {
	pod    *corev1.Pod
	reason string
	err    error
}

// missing are the shards of a plan that aren't counted.
func (f folding) missing(total int32) score.IndexSet {
	var shards score.IndexSet
	for shard := range int64(total) {
		if !f.completed.Contains(shard) {
			shards.Add(shard)
		}
	}
	return shards
}

// fold adds the summaries of the pods whose runner has succeeded to the sums, each shard once. It
// changes only sums.
func fold(plan score.Plan, sums score.Accumulator, completed score.IndexSet, list []corev1.Pod) folding {
	f := folding{sums: sums, completed: completed.Clone()}
	for i := range list {
		pod := &list[i]
		if !runnerSucceeded(pod) {
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
		f.ledgers, f.summaries = append(f.ledgers, ledger), append(f.summaries, summary)
		f.counted = append(f.counted, countedShard{
			index: shard, duration: played(pod), replayed: ledger.Replayed, errored: erroredByClass(summary),
			unreported: max(0, ledger.Opened-ledger.Scored-ledger.Failed-summary.ErroredEpisodes()-summary.Retried),
		})
	}
	return f
}

// endpoint is what a rehearsal saw of the agent's endpoint, "" if no summary says that.
func (f folding) endpoint() string {
	for _, summary := range f.summaries {
		if summary.Endpoint != "" {
			return summary.Endpoint
		}
	}
	return ""
}

func erroredByClass(summary score.Summary) map[string]int64 {
	classes := map[string]int64{}
	for _, class := range summary.Errored {
		classes[class.Class] += class.Episodes.Len()
	}
	return classes
}

// replayNote lists the suspect shards, "" if there are none. The figures are correct nevertheless:
// only the first end of an episode is counted.
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
	return fmt.Sprintf("In shards %s, %d episodes ended again and %d more were begun than the runners report. "+
		"Only the first end of an episode is counted. A runner that failed and was restarted explains this: see "+
		"`kubectl get pods -n %s -l %s=%s`. Otherwise another client plays the run's episodes: check which clients "+
		"can reach the pool.",
		pods.Quote(shards.String()), replayed, unreported, run.Namespace, v1alpha1.LabelRun, run.Name)
}

// readSummary decodes a termination message and checks that the pool graded the planned episodes.
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

// shardOf is the shard that a pod plays: its Job's completion index is a position in
// annotationShards.
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
