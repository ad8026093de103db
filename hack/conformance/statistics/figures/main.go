// Command figures reads episodes as JSON from standard input and prints csenv's figures for them.
// The suite compares these with an independent computation.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/csenv/csenv/envserver/score"
)

// input contains two runs. Scores are in micro-points.
type input struct {
	PassScore int64     `json:"passScore"`
	Run       []episode `json:"run"`
	Baseline  []episode `json:"baseline"`
}

type episode struct {
	// Shard is the shard of the episode. All episodes of a scenario are in one shard.
	Shard      int    `json:"shard"`
	Task       string `json:"task"`
	Scenario   string `json:"scenario"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Language   string `json:"language"`
	Score      int64  `json:"score"`
}

type output struct {
	Figures    score.Figures         `json:"figures"`
	Scores     []score.ScenarioScore `json:"scores"`
	Baseline   []score.ScenarioScore `json:"baseline"`
	Comparison score.Comparison      `json:"comparison"`
}

func main() {
	if err := computeFigures(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func computeFigures() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.More() {
		var runs input
		if err := in.Decode(&runs); err != nil {
			return err
		}
		sums, table, err := foldEpisodes(runs.Run, runs.PassScore)
		if err != nil {
			return err
		}
		_, other, err := foldEpisodes(runs.Baseline, runs.PassScore)
		if err != nil {
			return err
		}
		if err := out.Encode(output{sums.Figures(), table.Rows(), other.Rows(),
			score.Compare(table.Rows(), other.Rows())}); err != nil {
			return err
		}
	}
	return nil
}

// foldEpisodes does the same as env servers and the controller: one encoded ledger for each shard,
// and sums that are encoded and decoded between two shards.
func foldEpisodes(episodes []episode, passScore int64) (*score.Accumulator, *score.ScenarioTable, error) {
	sums, table := &score.Accumulator{}, &score.ScenarioTable{}
	slices.SortStableFunc(episodes, func(a, b episode) int { return cmp.Compare(a.Shard, b.Shard) })
	for first := 0; first < len(episodes); {
		shard := episodes[first].Shard
		ledger := &score.Ledger{Shard: shard, PassScore: passScore}
		for ; first < len(episodes) && episodes[first].Shard == shard; first++ {
			e := episodes[first]
			planned := score.PlannedEpisode{Index: int64(first), Task: e.Task, Scenario: e.Scenario}
			if err := ledger.Add(planned, score.Episode{Outcome: score.Scored, Score: e.Score, Category: e.Category,
				Difficulty: e.Difficulty, Language: e.Language}); err != nil {
				return nil, nil, err
			}
		}
		if err := relayLedger(ledger, sums, table); err != nil {
			return nil, nil, err
		}
	}
	return sums, table, nil
}

func relayLedger(ledger *score.Ledger, sums *score.Accumulator, table *score.ScenarioTable) error {
	data, err := ledger.MarshalBinary()
	if err != nil {
		return err
	}
	var relayed score.Ledger
	if err := relayed.UnmarshalBinary(data); err != nil {
		return err
	}
	sums.Fold(&relayed)
	table.Fold(&relayed)
	text, err := sums.MarshalText()
	if err != nil {
		return err
	}
	return sums.UnmarshalText(text)
}
