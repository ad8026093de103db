package operator

import (
	"crypto/ed25519"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/envserver/score"
)

// The operator accepts the summary of a simulated runner.
func TestPlayShard(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	draft := score.Plan{
		Run: "a-run", PassScore: score.One / 2, ScenarioDigest: "sha256:5ca1e", GraderVersion: "scale",
		Judge: "offline-v1", LedgerKey: score.FormatPublicKey(public),
		Tasks: []score.PlanTask{{Name: runTask, Trials: 1000, Scenarios: []string{scenarioID(0), scenarioID(1),
			scenarioID(2)}}},
	}
	plan, err := score.NewPlan(draft, 3)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range plan.Shards {
		message, err := playShard(plan, shard, private)
		if err != nil {
			t.Fatal(err)
		}
		summary, err := score.DecodeSummary(message)
		if err != nil {
			t.Fatal(err)
		}
		ledger, err := summary.Ledger.Verify(public)
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Check(shard, ledger, summary); err != nil {
			t.Error(err)
		}
		if ledger.Scored != 1000 || ledger.Opened != 1000 {
			t.Errorf("shard %d has %d episodes of %d begun, want 1000", shard, ledger.Scored, ledger.Opened)
		}
	}
}

func TestShardOf(t *testing.T) {
	for name, tc := range map[string]struct {
		index, shards string
		want          int
		wantErr       string
	}{
		"the first Job plays all shards":   {"3", "0-9", 3, ""},
		"a later one those that are left":  {"1", "2,7", 7, ""},
		"an index beyond the Job's shards": {"2", "2,7", 0, "index 2"},
		"no index":                         {"", "2,7", 0, "reading a runner's index"},
		"no shards":                        {"0", "x", 0, "reading a Job's shards"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				batchv1.JobCompletionIndexAnnotation: tc.index, shardsAnnotation: tc.shards}}}
			got, err := shardOf(pod)
			if tc.wantErr == "" && err != nil || tc.wantErr != "" &&
				(err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			if got != tc.want {
				t.Errorf("shard %d, want %d", got, tc.want)
			}
		})
	}
}
