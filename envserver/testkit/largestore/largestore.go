// Package largestore writes a store with many episodes for benchmarks.
package largestore

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
)

const (
	defaultEpisodes = 5000
	shards          = 8
	turns           = 8
	segmentEpisodes = 256
	vocabulary      = 4000
	textWords       = 25
)

// Folder returns the folder of a store with one run of generated cases, and the file of its index.
// Without CSENV_LARGE_STORE both are temporary; with it, this folder keeps them from one benchmark
// to the next. CSENV_LARGE_EPISODES is about the number of episodes, up to 1000 of each case.
func Folder(b *testing.B) (folder, index string) {
	b.Helper()
	folder = cmp.Or(os.Getenv("CSENV_LARGE_STORE"), b.TempDir())
	index = filepath.Join(folder, "index.db")
	if found, err := filepath.Glob(filepath.Join(folder, "*", "shard-*")); err != nil || len(found) > 0 {
		return folder, index
	}
	episodes, err := strconv.Atoi(cmp.Or(os.Getenv("CSENV_LARGE_EPISODES"), strconv.Itoa(defaultEpisodes)))
	if err != nil {
		b.Fatal("CSENV_LARGE_EPISODES is a number of episodes:", err)
	}
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	plan := planCases(b, key, episodes)
	store, err := results.Open(b.Context(), folder)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	const name = "large-0a1b2c3d"
	if err := store.WriteManifest(b.Context(), name, results.Manifest{Environment: "workflow", Plan: plan,
		Agent: json.RawMessage(`{"type":"Builtin","builtin":{"policy":"Random"}}`), Runner: "v1"}); err != nil {
		b.Fatal(err)
	}
	var writing errgroup.Group
	writing.SetLimit(2)
	for shard := range plan.Shards {
		writing.Go(func() error {
			return writeShard(plan, key, shard, filepath.Join(folder, name, fmt.Sprintf("shard-%05d", shard)))
		})
	}
	if err := writing.Wait(); err != nil {
		b.Fatal(err)
	}
	return folder, index
}

// planCases plans the same number of trials of every generated case.
func planCases(b *testing.B, key ed25519.PrivateKey, episodes int) score.Plan {
	b.Helper()
	c := testkit.Catalog(b)
	plan := score.Plan{Run: "0a1b2c3d-4e5f", Seed: 7, PassScore: 800_000, ScenarioDigest: c.Digest(),
		GraderVersion: "v6", Judge: "rules", LedgerKey: score.FormatPublicKey(key.Public().(ed25519.PublicKey))}
	places := map[string]int{}
	for _, s := range c.Cases() {
		at, known := places[s.Task()]
		if !known {
			at, places[s.Task()] = len(plan.Tasks), len(plan.Tasks)
			plan.Tasks = append(plan.Tasks, score.PlanTask{Name: s.Task(),
				Trials: min(max(episodes/len(c.Cases()), 1), score.MaxTrials)})
		}
		plan.Tasks[at].Scenarios = append(plan.Tasks[at].Scenarios, s.ID)
	}
	plan, err := score.NewPlan(plan, shards)
	if err != nil {
		b.Fatal(err)
	}
	return plan
}

func writeShard(plan score.Plan, key ed25519.PrivateKey, shard int, folder string) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(1, uint64(shard))) //nolint:gosec // not a secret
	var text bytes.Buffer
	out, count, segments := record.NewWriter(&text), 0, 0
	flush := func() error {
		defer text.Reset()
		segments, count = segments+1, 0
		return os.WriteFile(filepath.Join(folder, fmt.Sprintf("%06d.jsonl", segments)), text.Bytes(), 0o600)
	}
	for planned := range plan.Shard(shard) {
		e, err := drawEpisode(random, plan, key, shard, planned)
		if err := errors.Join(err, out.Write(e)); err != nil {
			return err
		}
		if count++; count == segmentEpisodes {
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

// drawEpisode draws a record. One in a hundred errored, and of one in fifty the receipt has another
// score.
func drawEpisode(random *rand.Rand, plan score.Plan, key ed25519.PrivateKey, shard int,
	planned score.PlannedEpisode) (record.Episode, error) {
	e := record.Episode{Run: plan.Run, Index: planned.Index, Environment: "workflow", Task: planned.Task,
		Scenario: planned.Scenario, Trial: planned.Trial, Seed: planned.Seed, RewardMode: episode.Terminal, Attempts: 1,
		DurationMS: 5 + random.Int64N(60_000)}
	for range turns {
		e.Turns = append(e.Turns, record.Turn{Answer: record.Answer{Said: drawText(random)},
			Action: json.RawMessage(`{"action_type":"look_up_policy","payload":{"topic":"returns"}}`)})
	}
	if random.IntN(100) == 0 {
		e.Outcome, e.Class, e.Attempts = score.Errored, score.ClassTimeout, 3
		return e, nil
	}
	points := float64(random.Int64N(1001)) / 1000
	dimensions := []score.Dimension{{Name: "steps", Earned: int64(points * 1000), Offered: 1000}}
	e.Grade = record.Grade{Outcome: score.Scored, Score: &points, Dimensions: dimensions, Judge: plan.Judge,
		GraderVersion: plan.GraderVersion}
	counted := int64(points*score.One + 0.5)
	if random.IntN(50) == 0 {
		counted = score.One / 2
	}
	ledger := score.Ledger{Run: plan.Run, Shard: shard, PassScore: plan.PassScore, Judge: plan.Judge,
		ScenarioDigest: plan.ScenarioDigest, GraderVersion: plan.GraderVersion}
	var err error
	e.Receipt, err = ledger.Receipt(planned, score.Episode{Outcome: score.Scored, Score: counted,
		Dimensions: dimensions, Category: "return", Difficulty: "easy", Language: "en"}).Sign(key)
	return e, err
}

// drawText draws words; the first ones are the most frequent.
func drawText(random *rand.Rand) string {
	var text strings.Builder
	for range textWords {
		n := int(random.Float64() * random.Float64() * vocabulary)
		fmt.Fprintf(&text, "w%c%c%d ", 'a'+n%26, 'a'+n/26%26, n)
	}
	return strings.TrimSpace(text.String())
}
