package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// The worst case within the catalogue's limits: ids of 32 random characters, three tasks with eight
// dimensions each from a dozen names, 32 categories, errors of every class, and durations in all
// bins. NewPlan must have split the run so that every shard's summary fits.
func TestSummaryOfAnyPlanFits(t *testing.T) {
	for _, trials := range []int{1, 4, 1000} {
		for _, scenarios := range []int{1, 48, 96} {
			t.Run(fmt.Sprintf("%d scenarios, %d trials", scenarios, trials), func(t *testing.T) {
				random := rand.New(rand.NewPCG(3, uint64(trials)))
				p := mustPlan(t, worstPlan(random, scenarios, trials), 1)
				summary := worstSummary(t, random, p)
				data, err := summary.Encode()
				if err != nil {
					t.Fatal(err)
				}
				ledger := len(summary.Ledger.Payload)
				t.Logf("%d shards; the first one's ledger has %d bytes, its summary %d", p.Shards, ledger, len(data))
				if bound := p.largestLedger(); ledger > bound {
					t.Errorf("the ledger has %d bytes, more than the plan's bound of %d", ledger, bound)
				}
			})
		}
	}
}

func worstPlan(random *rand.Rand, scenarios, trials int) Plan {
	draft := plan()
	draft.Tasks = nil
	ids := make([]string, scenarios)
	for i := range ids {
		id := make([]byte, 32)
		for j := range id {
			id[j] = bitstream.Alphabet[random.IntN(63)]
		}
		ids[i] = string(id)
	}
	for _, name := range []string{"a", "b", "c"} {
		draft.Tasks = append(draft.Tasks, PlanTask{Name: strings.Repeat(name, 32), Trials: trials, Scenarios: ids})
	}
	return draft
}

func worstSummary(t *testing.T, random *rand.Rand, p Plan) Summary {
	t.Helper()
	l := newLedger(p, 0)
	s := Summary{
		Retried: 1 << 20, RetriedBy: map[string]int64{}, Tokens: Tokens{1e14 - 1, 1e14 - 1},
		Stored: Stored{Episodes: p.Episodes(), Error: strings.Repeat("a <bucket> that isn't there: \"no\"\n", 20)},
	}
	for i := range 10 {
		s.RetriedBy[fmt.Sprintf("agent_failure_%02d", i)] = 1000
	}
	for _, class := range []string{"env_unreachable", "env_error", "judge_failed", "policy_error", "timeout",
		"capacity"} {
		s.Errored = append(s.Errored, ErrorClass{Class: class})
	}
	errored := 0
	for ep := range p.Shard(0) {
		s.Durations.Observe(random.Int64N(1 << (1 + random.IntN(24))))
		if errored < 30 && random.IntN(int(p.Episodes())) < 60 && ep.Trial > 0 {
			s.Errored[errored%len(s.Errored)].Episodes.Add(ep.Index)
			errored++
			continue
		}
		e := Episode{Outcome: Scored, Score: random.Int64N(One + 1),
			Category: fmt.Sprintf("category-%07d", random.IntN(maxCategories)), Difficulty: fmt.Sprintf("%016d",
				random.IntN(3)), Language: fmt.Sprintf("%016d", random.IntN(6))}
		for i := range 8 {
			e.Dimensions = append(e.Dimensions, Dimension{fmt.Sprintf("dimension-%06d", (i+int(ep.Task[0]))%12),
				random.Int64N(1001), 1000})
		}
		if err := l.Add(ep, e); err != nil {
			t.Fatal(err)
		}
		l.Opened += 2
	}
	var err error
	if s.Ledger, err = l.Sign(testKey()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEncodeRefusesWhatDoesNotFit(t *testing.T) {
	s := Summary{Errored: []ErrorClass{{Class: "timeout"}}}
	for i := range int64(2000) {
		s.Errored[0].Episodes.Add(3 * i)
	}
	if _, err := s.Encode(); err == nil || !strings.Contains(err.Error(), "2000 episodes errored") {
		t.Errorf("error %v, want the number of errored episodes", err)
	}
}

// Too many classes of errors don't prevent a complete shard from being counted: they are merged
// into one class, with the same total.
func TestEncodeMergesClassesThatDoNotFit(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	for name, tc := range map[string]struct {
		filler, retried, errored int // bytes of the signature, merged classes
	}{
		"room for all":       {1000, 13, 13},
		"near the limit":     {3300, 5, 13},
		"nearer the limit":   {3700, 1, 6},
		"no room for errors": {3900, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := Summary{Retried: 1 << 20, RetriedBy: map[string]int64{},
				Ledger: SignedLedger{Signature: make([]byte, tc.filler*3/4)}}
			l := newLedger(p, 0)
			for i := range 13 {
				class := fmt.Sprintf("agent_failure_%02d", i)
				s.RetriedBy[class] = int64(1000 + i)
				s.Errored = append(s.Errored, ErrorClass{Class: class})
			}
			for ep := range p.Shard(0) {
				if ep.Index < 13 {
					s.Errored[ep.Index].Episodes.Add(ep.Index)
				} else if err := l.Add(ep, Episode{Outcome: Scored, Score: One / 2}); err != nil {
					t.Fatal(err)
				}
			}
			data, err := s.Encode()
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeSummary(data)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Check(0, l, got); err != nil || len(s.RetriedBy) != 13 || len(s.Errored) != 13 {
				t.Errorf("the shard is not valid any more: %v; or the summary was changed", err)
			}
			var retried int64
			for _, n := range got.RetriedBy {
				retried += n
			}
			if len(got.RetriedBy) != tc.retried || len(got.Errored) != tc.errored || retried != 13*1006 {
				t.Errorf("%d classes of %d retries, %d of errors, want %d of %d, %d", len(got.RetriedBy), retried,
					len(got.Errored), tc.retried, 13*1006, tc.errored)
			}
		})
	}
}

func TestSummaryRoundTrip(t *testing.T) {
	s := Summary{
		Version: summaryVersion, Retried: 3, RetriedBy: map[string]int64{"timeout": 1, "env_unreachable": 2},
		Errored: []ErrorClass{{Class: "env_unreachable"}},
		Tokens:  Tokens{Prompt: 1200, Completion: 34}, Stored: Stored{Episodes: 5, Error: "the bucket is gone"},
	}
	s.Errored[0].Episodes.Add(3)
	s.Durations.Observe(1234)
	var err error
	if s.Ledger, err = playedLedger(t).Sign(testKey()); err != nil {
		t.Fatal(err)
	}
	data, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeSummary(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, got); diff != "" {
		t.Error(diff)
	}
}

func TestEncodeMakesStoreErrorsPlain(t *testing.T) {
	cases := map[string]string{
		"":                              "",
		"access denied":                 "access denied",
		"PUT <a&b>: \"no\"\n\t\x00 now": "PUT 'a'b': 'no' now",
		"zone für später":               "zone f?r sp?ter",
		strings.Repeat("x", 300):        strings.Repeat("x", 200),
		strings.Repeat("x", 199) + " y": strings.Repeat("x", 199),
	}
	for text, want := range cases {
		data, err := Summary{Stored: Stored{Error: text}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeSummary(data); err != nil || got.Stored.Error != want {
			t.Errorf("%q is read as %q (%v), want %q", text, got.Stored.Error, err, want)
		}
	}
}

func TestDecodeSummaryRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":          "",
		"plain text":       "error: the pool can't be reached",
		"another version":  `{"version":1}`,
		"unknown fields":   `{"version":2,"mean":"1.0"}`,
		"text behind":      `{"version":2} {"version":2}`,
		"negative retries": `{"version":2,"retried":-1}`,
		"bad indexes":      `{"version":2,"errored":[{"class":"x","episodes":"3,1"}]}`,
		"bad durations":    `{"version":2,"durations":"AAAAA"}`,
		"a hidden class":   `{"version":2,"retriedBy":{"timeout":3},"retried":2}`,
		"no attempt":       `{"version":2,"retriedBy":{"timeout":0}}`,
		"a nameless class": `{"version":2,"retriedBy":{"":1},"retried":1}`,
		"a class in prose": `{"version":2,"errored":[{"class":"it is late","episodes":""}]}`,
		"a long class":     `{"version":2,"errored":[{"class":"` + strings.Repeat("x", 33) + `","episodes":""}]}`,
		"negative tokens":  `{"version":2,"tokens":{"prompt":-1,"completion":0}}`,
		"endless tokens":   `{"version":2,"tokens":{"prompt":0,"completion":9007199254740991}}`,
		"stored less":      `{"version":2,"stored":{"episodes":-1}}`,
		"a long story":     `{"version":2,"stored":{"episodes":1,"error":"` + strings.Repeat("x", 201) + `"}}`,
		"a story in lines": `{"version":2,"stored":{"episodes":1,"error":"a\nb"}}`,
		"too much":         `{"version":2,"retried":` + strings.Repeat(" ", MaxSummaryBytes) + `0}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := DecodeSummary([]byte(text)); !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v, want ErrMalformed", err)
			}
		})
	}
}

func FuzzDecodeSummary(f *testing.F) {
	signed, err := playedLedger(f).Sign(testKey())
	if err != nil {
		f.Fatal(err)
	}
	data, err := json.Marshal(Summary{Version: summaryVersion, Ledger: signed})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":2,"errored":[{"class":"x","episodes":"0-9007199254740991"}],"durations":"CGqA"}`))
	p := mustPlan(f, plan(), 1)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := DecodeSummary(data)
		if err != nil {
			return
		}
		if err := p.Check(0, newLedger(p, 0), s); err == nil {
			t.Error("a ledger without episodes is accepted for the whole shard")
		}
		if again, err := s.Encode(); err == nil {
			if _, err := DecodeSummary(again); err != nil {
				t.Errorf("its encoding is refused: %v", err)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	cases := map[string]struct {
		change func(*Ledger)
		errors []int64
		shard  int
		want   error
	}{
		"as planned":               {func(*Ledger) {}, nil, 0, nil},
		"one errored":              {func(l *Ledger) { *l = *ledgerWithout(t, p, 3) }, []int64{3}, 0, nil},
		"an error hidden":          {func(l *Ledger) { *l = *ledgerWithout(t, p, 3) }, nil, 0, ErrEpisodes},
		"an error made up":         {func(*Ledger) {}, []int64{3}, 0, ErrEpisodes},
		"an error misplaced":       {func(l *Ledger) { *l = *ledgerWithout(t, p, 4) }, []int64{5}, 0, ErrEpisodes},
		"errors of another shard":  {func(*Ledger) {}, []int64{77}, 0, ErrEpisodes},
		"another run":              {func(l *Ledger) { l.Run = "other" }, nil, 0, ErrForeign},
		"another shard":            {func(l *Ledger) { l.Shard = 1 }, nil, 0, ErrForeign},
		"a shard beyond the plan":  {func(l *Ledger) { l.Shard = 5 }, nil, 5, ErrForeign},
		"other scenarios":          {func(l *Ledger) { l.ScenarioDigest = "sha256:00" }, nil, 0, ErrGrader},
		"another grader":           {func(l *Ledger) { l.GraderVersion = "4" }, nil, 0, ErrGrader},
		"another judge":            {func(l *Ledger) { l.Judge = "llm" }, nil, 0, ErrGrader},
		"another pass score":       {func(l *Ledger) { l.PassScore = 1 }, nil, 0, ErrGrader},
		"an easier seed":           {func(l *Ledger) { l.Digest.Add(PlannedEpisode{}) }, nil, 0, ErrEpisodes},
		"moved between scenarios":  {func(l *Ledger) { l.Scenarios[0].Tasks[0].Episodes++ }, nil, 0, ErrEpisodes},
		"a scenario not planned":   {func(l *Ledger) { l.Scenarios[0].ID = "0" }, nil, 0, ErrEpisodes},
		"a missing scenario":       {func(l *Ledger) { l.Scenarios = l.Scenarios[1:] }, nil, 0, ErrEpisodes},
		"the same task for others": {func(l *Ledger) { l.Scenarios[0].Tasks[0].Task = "resolve" }, nil, 0, ErrEpisodes},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := playedLedger(t)
			tc.change(l)
			s := Summary{Errored: []ErrorClass{{Class: "timeout"}}}
			for _, i := range tc.errors {
				s.Errored[0].Episodes.Add(i)
			}
			if err := p.Check(tc.shard, l, s); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func TestCheckRefusesAnEpisodeInTwoClasses(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	var twice IndexSet
	twice.Add(3)
	s := Summary{Errored: []ErrorClass{{"timeout", twice}, {"capacity", twice}}}
	if err := p.Check(0, ledgerWithout(t, p, 3), s); !errors.Is(err, ErrEpisodes) {
		t.Errorf("error %v, want ErrEpisodes", err)
	}
}

// ledgerWithout is the plan's first shard without one episode.
func ledgerWithout(t *testing.T, p Plan, index int64) *Ledger {
	t.Helper()
	l := newLedger(p, 0)
	for ep := range p.Shard(0) {
		if ep.Index == index {
			continue
		}
		if err := l.Add(ep, Episode{Outcome: Scored, Score: One / 2}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// A class that is declared but not listed would have no metric and no choice in commands.
func TestErrorClassesListsEveryClass(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "summary.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Class") {
			text, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			declared = append(declared, text)
		}
		return true
	})
	if diff := cmp.Diff(slices.Sorted(slices.Values(declared)),
		slices.Sorted(slices.Values(ErrorClasses()))); diff != "" || len(declared) < 13 {
		t.Error(diff)
	}
}
