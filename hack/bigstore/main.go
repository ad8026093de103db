// Command bigstore writes a large store of episodes for measurements. It repeats the episodes of a
// small store, which csenv eval has played, with other texts, scores and seeds:
//
//	csenv eval case-easy case-medium case-hard --agent random --results small
//	go run ./hack/bigstore --from small --episodes 1000000 --out big
package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/results"
	"github.com/csenv/csenv/envserver/score"
)

const (
	segmentEpisodes = 256
	segmentBytes    = 4 << 20
	vocabulary      = 4000
	textWords       = 25
)

func main() {
	var o options
	flag.StringVar(&o.from, "from", "", "store with played runs to repeat")
	flag.StringVar(&o.out, "out", "", "folder to write")
	flag.Int64Var(&o.episodes, "episodes", 1_000_000, "episodes of all runs, about")
	flag.IntVar(&o.shards, "shards", 8, "shards of each run")
	flag.IntVar(&o.steps, "steps", 0, "steps of the first episode of each shard, 0 for as many as it has")
	flag.Parse()
	if o.from == "" || o.out == "" {
		log.Fatal("--from and --out are required")
	}
	if err := o.write(context.Background()); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	from, out     string
	episodes      int64
	shards, steps int
}

func (o options) write(ctx context.Context) error {
	from, err := results.Open(ctx, o.from)
	if err != nil {
		return err
	}
	to, err := results.Open(ctx, o.out)
	if err != nil {
		return err
	}
	runs, err := from.Runs(ctx)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		return fmt.Errorf("%s contains no run", o.from)
	}
	for _, name := range runs {
		m, err := from.Manifest(ctx, name)
		if err != nil {
			return err
		}
		r := run{options: o, folder: filepath.Join(o.out, filepath.FromSlash(name)),
			samples: map[string][]record.Episode{},
			key:     ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))}
		var played int64
		for e, err := range from.Episodes(ctx, name) {
			if err != nil {
				return err
			}
			r.samples[e.Task+" "+e.Scenario] = append(r.samples[e.Task+" "+e.Scenario], e)
			played++
		}
		if played == 0 {
			return fmt.Errorf("run %s has no episodes", name)
		}
		trials := int(o.episodes / int64(len(runs)) / played)
		for i := range m.Plan.Tasks {
			m.Plan.Tasks[i].Trials = min(max(m.Plan.Tasks[i].Trials*trials, 1), score.MaxTrials)
		}
		m.Plan.LedgerKey = score.FormatPublicKey(r.key.Public().(ed25519.PublicKey))
		if r.plan, err = score.NewPlan(m.Plan, o.shards); err != nil {
			return err
		}
		m.Plan = r.plan
		if err := errors.Join(to.WriteManifest(ctx, name, m), r.write()); err != nil {
			return err
		}
	}
	return nil
}

// run is one run to write.
type run struct {
	options
	folder  string
	plan    score.Plan
	key     ed25519.PrivateKey
	samples map[string][]record.Episode
}

func (r run) write() error {
	var shards errgroup.Group
	shards.SetLimit(2)
	for shard := range r.plan.Shards {
		shards.Go(func() error { return r.writeShard(shard) })
	}
	return shards.Wait()
}

func (r run) writeShard(shard int) error {
	folder := filepath.Join(r.folder, fmt.Sprintf("shard-%05d", shard))
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, uint64(shard))) //nolint:gosec // not a secret
	var text bytes.Buffer
	out, count, segments := record.NewWriter(&text), 0, 0
	flush := func() error {
		segments++
		defer text.Reset()
		count = 0
		return os.WriteFile(filepath.Join(folder, fmt.Sprintf("%06d.jsonl", segments)), text.Bytes(), 0o600)
	}
	first := true
	for planned := range r.plan.Shard(shard) {
		e, ok := r.episode(random, shard, planned)
		if !ok {
			continue
		}
		for n := len(e.Turns); first && n > 0 && len(e.Turns) < r.steps; {
			e.Turns = append(e.Turns, e.Turns[:min(n, r.steps-len(e.Turns))]...)
		}
		first = false
		if err := out.Write(e); err != nil {
			return err
		}
		if count++; count == segmentEpisodes || text.Len() >= segmentBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if count == 0 {
		return nil
	}
	return flush()
}

// episode varies a sample of the planned scenario. One in a hundred errored, one in fifty has
// another score than its sample.
func (r run) episode(random *rand.Rand, shard int, planned score.PlannedEpisode) (record.Episode, bool) {
	samples := r.samples[planned.Task+" "+planned.Scenario]
	if len(samples) == 0 {
		return record.Episode{}, false
	}
	e := samples[random.IntN(len(samples))]
	e.Index, e.Trial, e.Seed = planned.Index, planned.Trial, planned.Seed
	e.DurationMS = 5 + random.Int64N(60_000)
	e.Turns = append([]record.Turn(nil), e.Turns...)
	for i := range e.Turns {
		e.Turns[i].Said = sentence(random)
	}
	if random.IntN(100) == 0 || e.Score == nil {
		e.Outcome, e.Class, e.Score, e.Receipt, e.Dimensions = score.Errored, score.ClassTimeout, nil, "", nil
		e.Attempts = 3
		return e, true
	}
	points := float64(random.Int64N(1001)) / 1000
	e.Score = &points
	ledger := score.Ledger{Run: r.plan.Run, Shard: shard, PassScore: r.plan.PassScore, Judge: r.plan.Judge,
		ScenarioDigest: r.plan.ScenarioDigest, GraderVersion: r.plan.GraderVersion}
	counted := int64(points*score.One + 0.5)
	if random.IntN(50) == 0 {
		counted = score.One / 2
	}
	var err error
	e.Receipt, err = ledger.Receipt(planned, score.Episode{Outcome: e.Outcome, Score: counted, Dimensions: e.Dimensions,
		Category: "category" + planned.Scenario[:1], Difficulty: "easy", Language: "en"}).Sign(r.key)
	return e, err == nil
}

// sentence draws words, of which the first ones are the most frequent.
func sentence(random *rand.Rand) string {
	var text strings.Builder
	for range textWords {
		n := int(random.Float64() * random.Float64() * vocabulary)
		fmt.Fprintf(&text, "w%c%c%d ", 'a'+n%26, 'a'+n/26%26, n)
	}
	return strings.TrimSpace(text.String())
}
