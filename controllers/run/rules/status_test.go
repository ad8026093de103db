package rules

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// The largest status of a run of a thousand shards: every second shard is counted, in three tasks
// over sixty scenarios of eight categories. Larger objects would slow down every list of runs.
func TestStatusStaysSmall(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s, plan := begun(t)
	sums, done, err := tally.ReadCounted(s.Run)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 1000 {
		ledger := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore}
		for trial := range 12 {
			ep := score.PlannedEpisode{Task: []string{"queue-management", "ticket-classify", "ticket-resolve"}[trial%3],
				Scenario: fmt.Sprintf("S%02d", shard%60)}
			e := score.Episode{Outcome: score.Scored, Score: random.Int64N(score.One + 1), Category: fmt.Sprintf(
				"a-long-category-%d", shard%8), Difficulty: []string{"easy", "medium", "hard"}[shard%3]}
			for _, name := range []string{"category", "decision", "escalation", "priority", "response", "sla"} {
				e.Dimensions = append(e.Dimensions, score.Dimension{Name: name, Earned: random.Int64N(500),
					Offered: 500})
			}
			if err := ledger.Add(ep, e); err != nil {
				t.Fatal(err)
			}
		}
		sums.Fold(ledger)
		if shard%2 == 0 {
			done.Add(int64(shard))
		}
	}
	s.Run.Status.Shards.Total = 1000
	addPods(&s, runtest.MarkPulling(runtest.RunnerPod(s.Run, 0)))
	s.Pods[0].Status.ContainerStatuses[0].State.Waiting.Message = strings.Repeat("a long story ", 500)
	p := newPass(s)
	p.d.Tally = tally.Result{Sums: sums, Completed: done}
	evaluation.WriteFigures(&p.d.Status, sums, done)
	p.settleStage(Playing)
	d := p.d
	data, err := json.Marshal(d.Status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d of them sums and %d indexes", len(data), len(d.Status.Shards.Accumulator),
		len(d.Status.Shards.CompletedIndexes))
	if len(data) > 16<<10 {
		t.Errorf("%d bytes of status, want at most 16 KiB", len(data))
	}
	// The API's own limits: a status that exceeds them can't be written.
	if len(d.Status.Shards.Accumulator) > 32768 || len(d.Status.Shards.CompletedIndexes) > 8192 ||
		len(d.Status.Categories) > 32 {
		t.Errorf("sums of %d bytes, indexes of %d, %d categories", len(d.Status.Shards.Accumulator),
			len(d.Status.Shards.CompletedIndexes), len(d.Status.Categories))
	}
}

// The largest run that the API permits: sixteen tasks of eight dimensions, the maximum number of
// categories, and names of maximum length.
func TestLargestRunFitsIntoItsStatus(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s, plan := begun(t)
	sums, _, err := tally.ReadCounted(s.Run)
	if err != nil {
		t.Fatal(err)
	}
	for shard := range 1000 {
		ledger := &score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore}
		for trial := range 128 {
			ep := score.PlannedEpisode{Task: fmt.Sprintf("a-task-whose-name-is-very-long-%d", trial%16),
				Scenario: fmt.Sprintf("S%04d", shard)}
			e := score.Episode{Outcome: score.Scored, Score: random.Int64N(score.One + 1),
				Category: fmt.Sprintf(strings.Repeat("c", 61)+"%02d", shard%evaluation.MaxCategories)}
			for i := range 8 {
				e.Dimensions = append(e.Dimensions, score.Dimension{Name: strings.Repeat("d", 62) + strconv.Itoa(i),
					Earned: random.Int64N(500), Offered: 500})
			}
			if err := ledger.Add(ep, e); err != nil {
				t.Fatal(err)
			}
		}
		sums.Fold(ledger)
	}
	status := s.Run.Status
	evaluation.WriteFigures(&status, sums, score.IndexSet{})
	data, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d of them sums", len(data), len(status.Shards.Accumulator))
	if len(status.Shards.Accumulator) > 32768 || len(status.Tasks) != 16 || len(status.Categories) != 32 {
		t.Errorf("sums of %d bytes, %d tasks, %d categories", len(status.Shards.Accumulator), len(status.Tasks),
			len(status.Categories))
	}
	if len(data) > 48<<10 {
		t.Errorf("%d bytes of status, want at most 48 KiB", len(data))
	}
}
