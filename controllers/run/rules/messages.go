package rules

import (
	"fmt"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

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

// writeLogsCommand writes the command that shows the logs of the run's runners.
func writeLogsCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("kubectl logs -n %s -l %s=%s", run.Namespace, v1alpha1.LabelRun, run.Name)
}
