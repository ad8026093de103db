package rules

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// describeProgress tells how much of a run is counted. An External run has shards only at its end.
func describeProgress(status v1alpha1.EvaluationRunStatus, completed score.IndexSet, goal int64) string {
	if status.Shards != nil {
		return describeShards(completed, status.Shards)
	}
	return describeCollected(ptr.Deref(status.Episodes, v1alpha1.RunEpisodes{}), goal)
}

func describeShards(completed score.IndexSet, shards *v1alpha1.Shards) string {
	return fmt.Sprintf("%d of %d shards are counted.", completed.Len(), shards.Total)
}

// describeCollected tells how many episodes are collected, of how many if there is a goal.
func describeCollected(e v1alpha1.RunEpisodes, goal int64) string {
	ended := e.Scored + e.Failed + e.Errored
	if goal > 0 {
		return fmt.Sprintf("%d of %d episodes are collected.", ended, goal)
	}
	return fmt.Sprintf("%d episodes are collected.", ended)
}

func describeRefusedSummary(r tally.Refusal) string {
	return fmt.Sprintf("The summary of runner pod %s is not counted: %v.", r.Pod.Name, r.Err)
}

func describeRefusedSegment(r tally.Refusal) string {
	return fmt.Sprintf("The segment of server %s is not counted: %v.", r.Pod.Name, r.Err)
}

// describeReplayed lists the suspect shards, "" if there are none. The figures are correct
// nevertheless: only the first end of an episode is counted.
func describeReplayed(counted []tally.Shard, run *v1alpha1.EvaluationRun) string {
	var shards score.IndexSet
	var replayed, unreported int64
	for _, shard := range counted {
		if shard.IsSuspect() {
			shards.Add(int64(shard.Index))
			replayed += shard.Replayed
			unreported += shard.Unreported
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

// writeLogsCommand writes the command that shows the logs of the run's runners.
func writeLogsCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("kubectl logs -n %s -l %s=%s", run.Namespace, v1alpha1.LabelRun, run.Name)
}
