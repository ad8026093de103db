package score

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// testKey is a fixed key pair.
func testKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
}

func publicKey() ed25519.PublicKey { return testKey().Public().(ed25519.PublicKey) }

// newLedger returns an empty ledger of a plan's shard.
func newLedger(p Plan, shard int) *Ledger {
	return &Ledger{Run: p.Run, Shard: shard, PassScore: p.PassScore, ScenarioDigest: p.ScenarioDigest,
		GraderVersion: p.GraderVersion, Judge: p.Judge}
}

// drawLedger plays a shard of a plan with random scores. Attributes follow from the scenario's id.
func drawLedger(t *rapid.T, p Plan, shard int) *Ledger {
	l := newLedger(p, shard)
	for ep := range p.Shard(shard) {
		l.Opened++
		if err := l.Add(ep, drawEpisode(t, ep)); err != nil {
			t.Fatal(err)
		}
	}
	l.Replayed = rapid.Int64Range(0, 3).Draw(t, "replayed")
	return l
}

func drawEpisode(t *rapid.T, ep PlannedEpisode) Episode {
	points := rapid.Int64Range(0, One).Draw(t, "score")
	return Episode{
		Outcome: rapid.SampledFrom([]Outcome{Scored, Scored, Failed}).Draw(t, "outcome"), Score: points,
		Dimensions: []Dimension{{"category", points / 5000, 200}, {"penalty", -points / 9000, 0}},
		Category:   ep.Scenario[:1], Difficulty: []string{"easy", "hard"}[int(ep.Scenario[1])%2], Language: "en",
	}
}

func TestLedgerAdd(t *testing.T) {
	p := mustPlan(t, plan(), 1)
	l := newLedger(p, 0)
	scores := []int64{800_000, 799_999, 0, One, 20_000, 333_333}
	for ep := range p.Shard(0) {
		e := Episode{
			Outcome: Scored, Score: scores[ep.Index], Category: "billing", Difficulty: "easy", Language: "de",
			Dimensions: []Dimension{{"reply", scores[ep.Index] / 2000, 500}, {"category", 200, 200}},
		}
		if ep.Index == 2 {
			e.Outcome = Failed
		}
		if err := l.Add(ep, e); err != nil {
			t.Fatal(err)
		}
	}
	want := newLedger(p, 0)
	want.Scored, want.Failed, want.Digest = 5, 1, l.Digest
	want.Tasks = []TaskSums{
		{Name: "classify", Episodes: 2, Passes: 1, Sum: One, Min: 0, Max: One,
			Dimensions: []Dimension{{"category", 400, 400}, {"reply", 500, 1000}}},
		{Name: "resolve", Episodes: 4, Passes: 1, Sum: 1_953_332, Min: 20_000, Max: 800_000,
			Dimensions: []Dimension{{"category", 800, 800}, {"reply", 975, 2000}}},
	}
	want.Tasks[0].Hist[0], want.Tasks[0].Hist[49] = 1, 1
	want.Tasks[1].Hist[1], want.Tasks[1].Hist[16], want.Tasks[1].Hist[39], want.Tasks[1].Hist[40] = 1, 1, 1, 1
	row := func(task string, n, passes, sum int64) ScenarioTaskSums {
		return ScenarioTaskSums{Task: task, Episodes: n, Passes: passes, Sum: sum}
	}
	want.Scenarios = []ScenarioSums{
		{"A", "billing", "easy", "de", []ScenarioTaskSums{row("classify", 1, 0, 0), row("resolve", 2, 1, 1_599_999)}},
		{"B", "billing", "easy", "de", []ScenarioTaskSums{row("classify", 1, 1, One)}},
		{"C", "billing", "easy", "de", []ScenarioTaskSums{row("resolve", 2, 0, 353_333)}},
	}
	if diff := cmp.Diff(want, l); diff != "" {
		t.Error(diff)
	}
}

func TestLedgerAddRefuses(t *testing.T) {
	for name, e := range map[string]Episode{
		"errored":    {Outcome: Errored},
		"no outcome": {},
		"below zero": {Outcome: Scored, Score: -1},
		"above one":  {Outcome: Scored, Score: One + 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(plan(), 0)
			if err := l.Add(PlannedEpisode{Task: "t", Scenario: "s"}, e); err == nil {
				t.Error("no error")
			}
			if diff := cmp.Diff(newLedger(plan(), 0), l); diff != "" {
				t.Errorf("a refused episode changed the ledger: %s", diff)
			}
		})
	}
}

func TestLedgerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := NewPlan(drawPlan(t), rapid.IntRange(1, 4).Draw(t, "parallelism"))
		if err != nil {
			t.Fatal(err)
		}
		l := drawLedger(t, p, p.Shards-1)
		data, err := l.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got Ledger
		if err := got.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, &got); diff != "" {
			t.Fatal(diff)
		}
		if bound := p.largestLedger(); len(data) > bound {
			t.Fatalf("%d bytes, more than the plan's bound of %d", len(data), bound)
		}
	})
}

func TestLedgerKeepsAnyText(t *testing.T) {
	for _, text := range []string{"", "offline-v1", "gpt 5 → judge", "sha256:" + strings.Repeat("0f", 32),
		"sha256:" + strings.Repeat("0F", 32), "sha256:00", strings.Repeat("x", bitstream.MaxText)} {
		l := newLedger(plan(), 0)
		l.Judge = text
		data, err := l.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var got Ledger
		if err := got.UnmarshalBinary(data); err != nil || got.Judge != text {
			t.Errorf("%q is read as %q (%v)", text, got.Judge, err)
		}
	}
}

func TestMarshalRefusesImpossibleLedgers(t *testing.T) {
	cases := map[string]func(*Ledger){
		"a negative count":       func(l *Ledger) { l.Opened = -1 },
		"a huge shard":           func(l *Ledger) { l.Shard = 1 << 40 },
		"a pass score above one": func(l *Ledger) { l.PassScore = One + 1 },
		"a long judge":           func(l *Ledger) { l.Judge = strings.Repeat("x", bitstream.MaxText+1) },
		"a long scenario id":     func(l *Ledger) { l.Scenarios[0].ID = strings.Repeat("A", maxName+1) },
		"scenarios out of order": func(l *Ledger) { l.Scenarios[0].ID = "Z" },
		"tasks out of order":     func(l *Ledger) { l.Tasks[0], l.Tasks[1] = l.Tasks[1], l.Tasks[0] },
		"rows out of order": func(l *Ledger) {
			rows := l.Scenarios[0].Tasks
			rows[0], rows[1] = rows[1],
				rows[0]
		},
		"a scenario without rows":  func(l *Ledger) { l.Scenarios[0].Tasks = nil },
		"more passes than played":  func(l *Ledger) { l.Scenarios[0].Tasks[0].Passes = 2 },
		"more points than offered": func(l *Ledger) { l.Scenarios[0].Tasks[0].Sum = One + 1 },
		"task and scenario differ": func(l *Ledger) { l.Tasks[0].Sum++ },
		"a task with no rows":      func(l *Ledger) { l.Tasks = append(l.Tasks, TaskSums{Name: "z"}) },
		"outcomes don't add up":    func(l *Ledger) { l.Scored++ },
		"a bin with too many":      func(l *Ledger) { l.Tasks[0].Hist[3]++ },
		"a negative bin":           func(l *Ledger) { l.Tasks[0].Hist[3]-- },
		"min above max":            func(l *Ledger) { l.Tasks[0].Min = One },
		"min in an empty bin":      func(l *Ledger) { l.Tasks[0].Min = 100_000 },
		"dimensions out of order":  func(l *Ledger) { d := l.Tasks[0].Dimensions; d[0], d[1] = d[1], d[0] },
		"negative points offered":  func(l *Ledger) { l.Tasks[0].Dimensions[0].Offered = -1 },
		"points beyond counting":   func(l *Ledger) { l.Tasks[0].Dimensions[0].Earned = -1 << 63 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			l := playedLedger(t)
			if _, err := l.MarshalBinary(); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			change(l)
			if _, err := l.MarshalBinary(); err == nil {
				t.Error("no error")
			}
		})
	}
}

// playedLedger plays the only shard of plan() with a score of one half in every episode.
func playedLedger(t testing.TB) *Ledger {
	t.Helper()
	p := mustPlan(t, plan(), 1)
	l := newLedger(p, 0)
	for ep := range p.Shard(0) {
		l.Opened++
		if err := l.Add(ep, Episode{Outcome: Scored, Score: One / 2, Category: "c",
			Dimensions: []Dimension{{"a", 1, 2}, {"b", 1, 2}}}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestVerify(t *testing.T) {
	l := playedLedger(t)
	signed, err := l.Sign(testKey())
	if err != nil {
		t.Fatal(err)
	}
	got, err := signed.Verify(publicKey())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, got); diff != "" {
		t.Error(diff)
	}
	for i := range 8 * len(signed.Payload) {
		bad := SignedLedger{Payload: bytes.Clone(signed.Payload), Signature: signed.Signature}
		bad.Payload[i/8] ^= 1 << (i % 8)
		if _, err := bad.Verify(publicKey()); !errors.Is(err, ErrSignature) {
			t.Fatalf("payload bit %d flipped: error %v, want ErrSignature", i, err)
		}
	}
	for i := range 8 * len(signed.Signature) {
		bad := SignedLedger{Payload: signed.Payload, Signature: bytes.Clone(signed.Signature)}
		bad.Signature[i/8] ^= 1 << (i % 8)
		if _, err := bad.Verify(publicKey()); !errors.Is(err, ErrSignature) {
			t.Fatalf("signature bit %d flipped: error %v, want ErrSignature", i, err)
		}
	}
}

func TestVerifyRefusesForeignKeysAndInvalidLedgers(t *testing.T) {
	signed, err := playedLedger(t).Sign(testKey())
	if err != nil {
		t.Fatal(err)
	}
	other := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	for name, pub := range map[string]ed25519.PublicKey{"another key": other, "no key": nil,
		"a short key": other[:31]} {
		if _, err := signed.Verify(pub); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: error %v, want ErrSignature", name, err)
		}
	}
	rubbish := []byte("not a ledger")
	bad := SignedLedger{Payload: rubbish, Signature: ed25519.Sign(testKey(),
		append([]byte(ledgerPrefix), rubbish...))}
	if _, err := bad.Verify(publicKey()); !errors.Is(err, ErrMalformed) {
		t.Errorf("signed rubbish: error %v, want ErrMalformed", err)
	}
	bare := SignedLedger{Payload: signed.Payload, Signature: ed25519.Sign(testKey(), signed.Payload)}
	if _, err := bare.Verify(publicKey()); !errors.Is(err, ErrSignature) {
		t.Errorf("a signature without the prefix: error %v, want ErrSignature", err)
	}
}

func TestPublicKeyText(t *testing.T) {
	got, err := ParsePublicKey(FormatPublicKey(publicKey()))
	if err != nil || !got.Equal(publicKey()) {
		t.Errorf("read as %x (%v)", got, err)
	}
	for _, text := range []string{"", "AAAA", "not base64"} {
		if _, err := ParsePublicKey(text); err == nil {
			t.Errorf("no error for the key %q", text)
		}
	}
}

// A decoder must not allocate memory for lengths that exceed its input.
func TestUnmarshalDoesNotAllocateForExcessiveLengths(t *testing.T) {
	claims := bitstream.Encode(ledgerVersions.Newest, func(s *bitstream.Stream) {
		for range 5 {
			s.Text(new("x"))
		}
		for range 60 {
			s.Number(new(int64(1<<62 + 5)))
		}
	})
	allocs := testing.AllocsPerRun(10, func() {
		if err := new(Ledger).UnmarshalBinary(claims); !errors.Is(err, ErrMalformed) {
			t.Fatalf("error %v, want ErrMalformed", err)
		}
	})
	if allocs > 100 {
		t.Errorf("%v allocations for %d bytes", allocs, len(claims))
	}
}

func FuzzLedgerUnmarshal(f *testing.F) {
	for _, l := range []*Ledger{playedLedger(f), newLedger(plan(), 0), fullLedger(f, 4)} {
		data, err := l.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var l Ledger
		if err := l.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("error %v doesn't wrap ErrMalformed", err)
			}
			return
		}
		again, err := l.MarshalBinary()
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("decoding and encoding changes the bytes (%v)", err)
		}
		var a Accumulator
		a.Fold(&l)
		a.Figures()
	})
}

// fullLedger is a ledger of 40 scenarios like those of the catalogue, with random scores.
func fullLedger(t testing.TB, trials int) *Ledger {
	t.Helper()
	draft := plan()
	draft.Tasks = nil
	for _, name := range []string{"ticket-classify", "ticket-resolve"} {
		task := PlanTask{Name: name, Trials: trials}
		for i := range 40 {
			task.Scenarios = append(task.Scenarios, fmt.Sprintf("%c%02d", "BGST"[i%4], i/4))
		}
		draft.Tasks = append(draft.Tasks, task)
	}
	p := mustPlan(t, draft, 1)
	return randomLedger(t, p, 0)
}

// randomLedger plays a shard with scores of maximum entropy.
func randomLedger(t testing.TB, p Plan, shard int) *Ledger {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	l := newLedger(p, shard)
	for ep := range p.Shard(shard) {
		if err := l.Add(ep, randomEpisode(random, ep)); err != nil {
			t.Fatal(err)
		}
		l.Opened++
	}
	return l
}

func randomEpisode(random *rand.Rand, ep PlannedEpisode) Episode {
	e := Episode{
		Outcome: Scored, Score: random.Int64N(One + 1), Category: ep.Scenario[:1],
		Difficulty: []string{"easy", "medium", "hard"}[int(ep.Scenario[0])%3],
		Language:   []string{"en", "de", "fr", "es"}[int(ep.Scenario[1])%4],
	}
	for _, name := range []string{"category", "decision", "priority", "response"} {
		e.Dimensions = append(e.Dimensions, Dimension{name, random.Int64N(251), 250})
	}
	return e
}

func BenchmarkLedgerAdd(b *testing.B) {
	l := fullLedger(b, 1)
	p := mustPlan(b, Plan{Run: "r", Tasks: []PlanTask{
		{Name: "ticket-resolve", Trials: 1000, Scenarios: []string{"B03", "T09"}}}}, 1)
	var episodes []PlannedEpisode
	for ep := range p.Shard(0) {
		episodes = append(episodes, ep)
	}
	e := randomEpisode(rand.New(rand.NewPCG(1, 2)), episodes[0])
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := l.Add(episodes[i%len(episodes)], e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLedgerSign(b *testing.B) {
	l := fullLedger(b, 4)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.Sign(testKey()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLedgerVerify(b *testing.B) {
	signed, err := fullLedger(b, 4).Sign(testKey())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := signed.Verify(publicKey()); err != nil {
			b.Fatal(err)
		}
	}
}
