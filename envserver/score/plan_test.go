package score

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// plan returns a small valid plan: A is in both tasks, B and C in one.
func plan() Plan {
	return Plan{
		Run: "0b5bb1a5-5a1c-4f0e-9e38-5d1f3a1f2c11", Seed: 42, PassScore: 800_000,
		ScenarioDigest: "sha256:" + strings.Repeat("ab", 32), GraderVersion: "3", Judge: "offline-v1",
		Tasks: []PlanTask{
			{Name: "resolve", Trials: 2, Scenarios: []string{"C", "A"}},
			{Name: "classify", Trials: 1, Scenarios: []string{"B", "A"}},
		},
	}
}

func mustPlan(t testing.TB, draft Plan, parallelism int) Plan {
	t.Helper()
	p, err := NewPlan(draft, parallelism)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestShardListsEpisodesInIndexOrder(t *testing.T) {
	p := mustPlan(t, plan(), 2)
	type row struct {
		Index          int64
		Task, Scenario string
		Trial          int
	}
	want := [][]row{
		{{0, "resolve", "A", 0}, {1, "resolve", "A", 1}, {2, "classify", "A", 0}, {4, "resolve", "C", 0},
			{5, "resolve", "C", 1}},
		{{3, "classify", "B", 0}},
	}
	got := make([][]row, p.Shards)
	for i := range got {
		for ep := range p.Shard(i) {
			got[i] = append(got[i], row{ep.Index, ep.Task, ep.Scenario, ep.Trial})
			if want := EpisodeSeed(42, ep.Task, ep.Scenario, ep.Trial); ep.Seed != want {
				t.Errorf("episode %d has seed %d, want %d", ep.Index, ep.Seed, want)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if p.Episodes() != 6 {
		t.Errorf("Episodes() = %d, want 6", p.Episodes())
	}
}

func TestShardStopsWhenItsReaderStops(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	for ep := range p.Shard(0) {
		if ep.Index == 1 {
			break
		}
		if ep.Index > 1 {
			t.Fatalf("got episode %d after the reader had stopped", ep.Index)
		}
	}
}

func TestNewPlanRefuses(t *testing.T) {
	cases := map[string]struct {
		change func(*Plan)
		want   string
	}{
		"no run":               {func(p *Plan) { p.Run = "" }, "run is empty"},
		"negative seed":        {func(p *Plan) { p.Seed = -1 }, "seed -1"},
		"seed of 2^53":         {func(p *Plan) { p.Seed = 1 << 53 }, "seed 9007199254740992"},
		"pass score above one": {func(p *Plan) { p.PassScore = One + 1 }, "passScore"},
		"no tasks":             {func(p *Plan) { p.Tasks = nil }, "no tasks"},
		"a task twice":         {func(p *Plan) { p.Tasks[1].Name = "resolve" }, `"resolve" appears twice`},
		"no trials":            {func(p *Plan) { p.Tasks[0].Trials = 0 }, "0 trials"},
		"too many trials":      {func(p *Plan) { p.Tasks[0].Trials = 1001 }, "1001 trials"},
		"no scenarios":         {func(p *Plan) { p.Tasks[0].Scenarios = nil }, "selects no scenario"},
		"a scenario twice": {func(p *Plan) { p.Tasks[0].Scenarios = []string{"A", "A"} },
			"not sorted and distinct"},
		"an id with a space": {func(p *Plan) { p.Tasks[0].Scenarios = []string{"A B"} }, `"A B"`},
		"a long task name":   {func(p *Plan) { p.Tasks[0].Name = strings.Repeat("x", 33) }, "1 to 32"},
		"several faults":     {func(p *Plan) { p.Run, p.Seed = "", -1 }, "run is empty\nseed -1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := plan()
			tc.change(&p)
			_, err := NewPlan(p, 1)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want it to contain %q", err, tc.want)
			}
		})
	}
}

func TestParsePlan(t *testing.T) {
	p := mustPlan(t, plan(), 2)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParsePlan(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Error(diff)
	}
	for name, text := range map[string]string{
		"unknown field": strings.Replace(string(data), `"seed"`, `"sed":1,"seed"`, 1),
		"no shards":     strings.Replace(string(data), `"shards":2`, `"shards":0`, 1),
		"many shards":   strings.Replace(string(data), `"shards":2`, `"shards":4`, 1),
		"not JSON":      "episodes: 3",
		"no tasks":      `{"run":"x","shards":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ParsePlan([]byte(text)); err == nil {
				t.Errorf("read as %+v", got)
			}
		})
	}
}

// The plan of a running run keeps its fingerprint when a release adds fields to plans.
func TestFingerprintOutlivesItsRelease(t *testing.T) {
	const stored = `{"run":"uid","seed":7,"shards":1,"passScore":700000,"scenarioDigest":"sha256:d",` +
		`"graderVersion":"4","judge":"offline","ledgerKey":"key",` +
		`"tasks":[{"name":"ticket-resolve","trials":2,"scenarios":["B01","B02"]}]}`
	p, err := ParsePlan([]byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Fingerprint()
	if err != nil || got != FingerprintOf([]byte(stored)) {
		t.Errorf("the plan made again has fingerprint %s (%v): leave new fields out if they are zero", got, err)
	}
	const want = "sha256:90a70f89fa85b3d94c166fd79c445e929097666c94567e8d8e77fd4a8fb6abdb"
	if FingerprintOf([]byte(stored)) != want {
		t.Errorf("fingerprint %s, want %s", FingerprintOf([]byte(stored)), want)
	}
}

func TestFingerprintDistinguishesPlans(t *testing.T) {
	fingerprint := func(change func(*Plan)) string {
		p := mustPlan(t, plan(), 2)
		change(&p)
		got, err := p.Fingerprint()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	original := fingerprint(func(*Plan) {})
	if again := fingerprint(func(*Plan) {}); again != original {
		t.Errorf("equal plans have fingerprints %s and %s", original, again)
	}
	for name, change := range map[string]func(*Plan){
		"seed": func(p *Plan) { p.Seed++ }, "shards": func(p *Plan) { p.Shards++ },
		"key": func(p *Plan) { p.LedgerKey = "x" }, "pressure": func(p *Plan) { p.Pressure = true },
		"scenario": func(p *Plan) { p.Tasks[0].Scenarios[0] = "Z" },
	} {
		if fingerprint(change) == original {
			t.Errorf("a change of %s doesn't change the fingerprint", name)
		}
	}
}

func TestShardCount(t *testing.T) {
	ids := func(n, length int) []string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("%0*d", length, i)
		}
		return list
	}
	one := func(trials int, scenarios []string) []PlanTask {
		return []PlanTask{{Name: "t", Trials: trials, Scenarios: scenarios}}
	}
	cases := map[string]struct {
		tasks       []PlanTask
		parallelism int
		want        int
	}{
		"one for a catalogue":               {one(4, ids(40, 3)), 1, 1},
		"as many as runners":                {one(4, ids(40, 3)), 8, 8},
		"no more than scenarios":            {one(4, ids(3, 3)), 8, 3},
		"more if one summary is too small":  {one(1, ids(400, 3)), 1, 4},
		"more for long ids and many trials": {one(1000, ids(400, 32)), 1, 15},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := plan()
			p.Tasks = tc.tasks
			if got := mustPlan(t, p, tc.parallelism).Shards; got != tc.want {
				t.Errorf("%d shards, want %d", got, tc.want)
			}
		})
	}
}

// The vectors were computed with Python's hashlib and struct: sha256(pack(">QQ", run, len(task)) +
// task + pack(">Q", len(scenario)) + scenario + pack(">Q", trial)) >> 203.
func TestEpisodeSeedVectors(t *testing.T) {
	cases := []struct {
		run            int64
		task, scenario string
		trial          int
		want           int64
	}{
		{0, "ticket-resolve", "B07", 0, 6431433615410143},
		{42, "ticket-resolve", "B07", 3, 8714511186857058},
		{42, "ticket-resolveB", "07", 3, 4555916252308676},
		{MaxSeed, "order-inquiry", "W-20", 999, 6255939652202697},
	}
	for _, tc := range cases {
		if got := EpisodeSeed(tc.run, tc.task, tc.scenario, tc.trial); got != tc.want {
			t.Errorf("EpisodeSeed(%d, %q, %q, %d) = %d, want %d", tc.run, tc.task, tc.scenario, tc.trial, got, tc.want)
		}
	}
}

// The vector was computed with Python's hashlib like those of seeds, over index, task, scenario and
// seed, and added modulo 2^256.
func TestPlanDigestVector(t *testing.T) {
	var d PlanDigest
	d.Add(PlannedEpisode{Index: 0, Task: "ticket-resolve", Scenario: "B07", Seed: 11})
	d.Add(PlannedEpisode{Index: 7, Task: "ticket-classify", Scenario: "S02", Seed: MaxSeed})
	d.Add(PlannedEpisode{Index: 9, Task: "a", Scenario: "b"})
	if got, want := hex.EncodeToString(
		d[:]), "a3cd7e19f35066839d9028154736091014cf7be6eea54b38d6b75d1dc9ead0fb"; got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestPlanDigestDoesNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		episodes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) PlannedEpisode {
			return PlannedEpisode{Index: rapid.Int64Range(0, 1<<40).Draw(t, "index"), Task: "t", Scenario: "s",
				Seed: rapid.Int64Range(0, MaxSeed).Draw(t, "seed")}
		}), 1, 20).Draw(t, "episodes")
		var want PlanDigest
		for _, ep := range episodes {
			want.Add(ep)
		}
		shuffled := rapid.Permutation(episodes).Draw(t, "shuffled")
		cut := rapid.IntRange(0, len(shuffled)).Draw(t, "cut")
		var left, right PlanDigest
		for i, ep := range shuffled {
			if i < cut {
				left.Add(ep)
			} else {
				right.Add(ep)
			}
		}
		left.AddSet(right)
		if !left.Equal(want) {
			t.Fatal("the digest depends on the order or the partition")
		}
	})
}

func TestShardsPartitionTheEpisodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPlan(drawPlan(t), rapid.IntRange(1, 6).Draw(t, "parallelism"))
		if err != nil {
			t.Fatal(err)
		}
		var indexes []int64
		home := map[string]int{}
		for i := range p.Shards {
			for ep := range p.Shard(i) {
				indexes = append(indexes, ep.Index)
				if shard, ok := home[ep.Scenario]; ok && shard != i {
					t.Fatalf("scenario %s is in shards %d and %d", ep.Scenario, shard, i)
				}
				home[ep.Scenario] = i
			}
		}
		slices.Sort(indexes)
		for want, got := range indexes {
			if int64(want) != got {
				t.Fatalf("indexes %v", indexes)
			}
		}
		if int64(len(indexes)) != p.Episodes() {
			t.Fatalf("%d episodes in shards, %d in the plan", len(indexes), p.Episodes())
		}
	})
}

// drawPlan draws a plan of up to three tasks over a dozen scenarios.
func drawPlan(t *rapid.T) Plan {
	p := plan()
	p.Tasks = nil
	names := []string{"classify", "queue", "resolve"}
	id := rapid.StringMatching(`[A-D][0-9]`)
	for _, name := range names[:rapid.IntRange(1, 3).Draw(t, "tasks")] {
		p.Tasks = append(p.Tasks, PlanTask{
			Name: name, Trials: rapid.IntRange(1, 9).Draw(t, "trials"),
			Scenarios: rapid.SliceOfNDistinct(id, 1, 12, rapid.ID).Draw(t, "scenarios"),
		})
	}
	return p
}

// A server that played an episode without the planned pressure has another fingerprint.
func TestDigestDependsOnPressure(t *testing.T) {
	at := PlannedEpisode{Index: 3, Task: "ticket-resolve", Scenario: "B07", Seed: 5}
	var relaxed, pressed PlanDigest
	relaxed.Add(at)
	at.Pressure = true
	pressed.Add(at)
	if relaxed.Equal(pressed) {
		t.Error("the same digest with pressure and without")
	}
}

// The index of a plan has the episodes of its shards, and whatever a stored plan says, finding an
// episode ends.
func TestPlanIndex(t *testing.T) {
	plan, err := NewPlan(Plan{Run: "u", Seed: 7, Pressure: true, Tasks: []PlanTask{
		{Name: "refund", Trials: 3, Scenarios: []string{"A1", "C3", "B2"}},
		{Name: "resolve", Trials: 2, Scenarios: []string{"D4", "A1", "E5"}}}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	index := plan.NewIndex()
	var found int64
	for shard := range plan.Shards {
		for want := range plan.Shard(shard) {
			found++
			if got, of, planned := index.Episode(want.Index); !planned || got != want || of != shard {
				t.Errorf("episode %d is %+v of shard %d (%v), want %+v of %d", want.Index, got, of, planned, want, shard)
			}
		}
	}
	if found != plan.Episodes() {
		t.Fatalf("%d episodes", found)
	}
	for _, outside := range []int64{-1, found, math.MaxInt64, math.MinInt64} {
		if got, _, planned := index.Episode(outside); planned {
			t.Errorf("episode %d is %+v", outside, got)
		}
	}
	for _, tasks := range [][]PlanTask{nil, {{Name: "a", Trials: -3, Scenarios: []string{"A1"}}},
		{{Name: "a", Trials: math.MaxInt, Scenarios: []string{"A1", "B2", "C3"}}},
		{{Name: "a", Trials: 1, Scenarios: []string{"C3", "A1", "A1"}}}} {
		for _, shards := range []int{-1, 0, 1, 9} {
			odd := Plan{Shards: shards, Tasks: tasks}.NewIndex()
			for _, i := range []int64{-1, 0, 1, 2, math.MaxInt64} {
				odd.Episode(i)
			}
		}
	}
}
