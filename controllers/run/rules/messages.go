package rules

import (
	"fmt"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// describeChange returns what a pool, nil if there is none, reports differently from when the run
// began.
func describeChange(began v1alpha1.Provenance, key string, env *v1alpha1.CustomerSupportEnv) string {
	if env == nil {
		return ""
	}
	for _, field := range []struct{ what, began, now string }{
		{"scenarios", began.ScenarioDigest, env.Status.ScenarioDigest},
		{"grader", began.GraderVersion, env.Status.GraderVersion},
		{"judge", began.Judge, env.Status.Judge},
		{"ledger key", key, env.Status.LedgerPublicKey},
	} {
		if field.now != "" && field.now != field.began {
			return fmt.Sprintf("The %s of pool %s changed from %s to %s during the run. Scores of different graders "+
				"are never mixed. Create the run again.", field.what, env.Name, field.began, field.now)
		}
	}
	return ""
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

// writeLogsCommand writes the command that shows the logs of the run's runners.
func writeLogsCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("kubectl logs -n %s -l %s=%s", run.Namespace, v1alpha1.LabelRun, run.Name)
}
