package score

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawPlanOf draws a plan of a catalogue.
func drawPlanOf(t *rapid.T, catalogue []string) Plan {
	draft := plan()
	draft.Seed = rapid.Int64Range(0, MaxSeed).Draw(t, "seed")
	draft.Pressure = rapid.Bool().Draw(t, "pressure")
	draft.Tasks = nil
	for i := range rapid.IntRange(1, 3).Draw(t, "tasks") {
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom(catalogue), 1, len(catalogue), rapid.ID).Draw(t, "scenarios")
		draft.Tasks = append(draft.Tasks, PlanTask{Name: fmt.Sprintf("task-%d", i),
			Trials: rapid.IntRange(1, 3).Draw(t, "trials"), Scenarios: ids})
	}
	p, err := NewPlan(draft, rapid.IntRange(1, 5).Draw(t, "parallelism"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A server that has the outline over its own catalogue accepts exactly the episodes of the plan:
// each in its shard, and none with another index, shard, scenario, task, seed or pressure.
func TestOutlineAcceptsThePlanAlone(t *testing.T) {
	catalogue := make([]string, 150)
	for i := range catalogue {
		catalogue[i] = fmt.Sprintf("S%03d", i)
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlanOf(t, catalogue)
		o, err := p.Outline(catalogue)
		if err != nil {
			t.Fatal(err)
		}
		var all []int64
		for shard := range p.Shards {
			want := slices.Collect(p.Shard(shard))
			if !slices.Equal(slices.Collect(o.shardEpisodes(shard)), want) {
				t.Fatalf("shard %d of the outline is not the plan's", shard)
			}
			indexes := slices.Collect(o.Indexes(shard))
			for i, ep := range want {
				all = append(all, ep.Index)
				if indexes[i] != ep.Index {
					t.Fatalf("index %d, want %d", indexes[i], ep.Index)
				}
				if err := o.Check(ep, shard); err != nil {
					t.Fatalf("episode %+v: %v", ep, err)
				}
			}
		}
		slices.Sort(all)
		if int64(len(all)) != o.Episodes() || len(all) > 0 && all[len(all)-1] != o.Episodes()-1 {
			t.Fatalf("%d episodes up to %d, want %d", len(all), all[len(all)-1], o.Episodes())
		}
		shard := rapid.IntRange(0, p.Shards-1).Draw(t, "shard")
		ep := rapid.SampledFrom(slices.Collect(p.Shard(shard))).Draw(t, "episode")
		for name, change := range map[string]func(*PlannedEpisode, *int){
			"seed":     func(ep *PlannedEpisode, _ *int) { ep.Seed++ },
			"pressure": func(ep *PlannedEpisode, _ *int) { ep.Pressure = !ep.Pressure },
			"index":    func(ep *PlannedEpisode, _ *int) { ep.Index++ },
			"shard":    func(_ *PlannedEpisode, shard *int) { *shard++ },
			"task":     func(ep *PlannedEpisode, _ *int) { ep.Task = "other" },
			"scenario": func(ep *PlannedEpisode, _ *int) { ep.Scenario = "S999" },
			"negative": func(ep *PlannedEpisode, _ *int) { ep.Index = -1 },
		} {
			changed, in := ep, shard
			change(&changed, &in)
			if o.Check(changed, in) == nil {
				t.Errorf("an episode with another %s is accepted: %+v in shard %d", name, changed, in)
			}
		}
	})
}

func TestOutlineNeedsTheCatalogue(t *testing.T) {
	if _, err := mustPlan(t, plan(), 1).Outline([]string{"A", "B"}); err == nil ||
		!strings.Contains(err.Error(), "scenario C, which is unknown here") {
		t.Errorf("error %v", err)
	}
}
