package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/ticket"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
)

func newTranscriptCommand() *cobra.Command {
	var from source
	var packs *[]string
	cmd := &cobra.Command{
		Use:   "transcript RUN EPISODE",
		Short: "Show a stored episode: what the agent saw and did, and how it was graded",
		Long: `Show a stored episode: what the agent saw, what it did, and how it was graded. EPISODE is its
number, as csenv episodes lists it, or a scenario that was played once.

Records hold no observations: environments are deterministic, so that the recorded actions are
played again to show them, with the scenarios that are loaded here (--pack for your own).`,
		Example: `  csenv transcript gpt 17
  csenv transcript gpt B07 --results ./results
  csenv transcript gpt 17 -o json | jq .verdicts`,
		Args: arguments(2, "RUN and EPISODE", "the name of a run and the number of an episode"),
	}
	from.add(cmd)
	packs = addPackFlag(cmd.Flags())
	output := formats(cmd.Flags(), "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		runs, err := from.find(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		e, err := pick(cmd.Context(), runs[0], args[1])
		if err != nil {
			return err
		}
		if output.name != "text" {
			return output.encode(cmd.OutOrStdout(), e)
		}
		catalog, err := loadCatalog(*packs)
		if err != nil {
			return err
		}
		return printTranscript(cmd.Context(), cmd.OutOrStdout(), catalog, e)
	}
	return cmd
}

// stage plays recorded actions again. It grades by rules alone, for the grade is on record.
type stage struct {
	env episode.Environment
	// missing is why observations can't be shown, "" if they can.
	missing string
}

func newStage(catalog *scenarios.Catalog, e record.Episode) (stage, any) {
	kind, err := rulesKind(catalog, e.Environment)
	if err != nil {
		return stage{missing: err.Error()}, nil
	}
	s := stage{env: kind.New()}
	begun, err := s.env.Reset(episode.Options{Seed: e.Seed, EpisodeID: e.EpisodeID, Task: e.Task, Scenario: e.Scenario,
		RewardMode: e.RewardMode, Pressure: e.Pressure})
	if err != nil {
		return stage{missing: fmt.Sprintf("what the agent saw can't be shown: %v; --pack loads scenarios of your own",
			err)}, nil
	}
	if e.ScenarioDigest != "" && e.ScenarioDigest != kind.ScenarioDigest() {
		s.missing = "the scenarios have changed since: what is shown is what they serve today"
	}
	return s, begun.Observation
}

func rulesKind(catalog *scenarios.Catalog, environment string) (episode.Kind, error) {
	switch environment {
	case "ticket":
		return ticket.New(catalog, grader.NewOffline())
	case "workflow":
		return workflow.New(catalog, grader.NewOffline())
	}
	return nil, fmt.Errorf("the environment is %q: this csenv knows ticket and workflow", environment)
}

// step plays an action and returns what is seen then, nil where that can't be shown.
func (s stage) step(ctx context.Context, action json.RawMessage) any {
	if s.env == nil {
		return nil
	}
	result, err := s.env.Step(ctx, action)
	if err != nil {
		return nil
	}
	return result.Observation
}

func printTranscript(ctx context.Context, w io.Writer, catalog *scenarios.Catalog, e record.Episode) error {
	paragraph(w, "", fmt.Sprintf("episode %d of run %s: task %s, scenario %s, trial %d, seed %d", e.Index,
		orDash(e.Run), e.Task, e.Scenario, e.Trial, e.Seed))
	s, seen := newStage(catalog, e)
	if s.missing != "" {
		paragraph(w, "", "note: "+s.missing)
	}
	heading(w, "what the agent saw")
	watcher := observer{out: w}
	watcher.show(seen)
	for i, turn := range e.Turns {
		heading(w, fmt.Sprintf("action %d of %d", i+1, len(e.Turns)))
		printAction(w, turn.Action)
		if turn.Refused != "" {
			paragraph(w, "  ", "refused: "+turn.Refused)
		}
		if seen := s.step(ctx, turn.Action); seen != nil && turn.Refused == "" {
			watcher.show(seen)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	printGrade(w, e.Grade)
	return nil
}

// printAction writes an action's members below each other, texts as they are read.
func printAction(w io.Writer, action json.RawMessage) {
	var members map[string]any
	if json.Unmarshal(action, &members) != nil {
		paragraph(w, "  ", string(action))
		return
	}
	name, _ := members["action_type"].(string)
	delete(members, "action_type")
	field(w, "action", name)
	for _, key := range sortedKeys(members) {
		switch value := members[key].(type) {
		case nil:
		case string:
			field(w, key, value)
		default:
			field(w, key, compact(value))
		}
	}
}

// printGrade writes a grade with its parts and what the judge said.
func printGrade(w io.Writer, g record.Grade) {
	heading(w, "how it was graded")
	field(w, "outcome", string(g.Outcome))
	field(w, "class", g.Class)
	if g.Score != nil {
		field(w, "score", score.Decimal(micro(*g.Score)))
	}
	field(w, "grader", g.GraderVersion)
	field(w, "judge", g.Judge)
	if len(g.Dimensions) > 0 {
		s := section{header: []string{"dimension", "earned", "offered", ""}}
		for _, d := range g.Dimensions {
			earned, offered := share(d.Earned), share(d.Offered)
			s.rows = append(s.rows, []string{d.Name, earned, offered, bar(earned, offered)})
		}
		fmt.Fprintln(w)
		document{sections: []section{s}}.print(w, "table")
	}
	for i, v := range g.Verdicts {
		heading(w, "the judge on reply "+strconv.Itoa(i+1))
		printVerdict(w, v)
	}
}

// printVerdict writes what a judge said, criterion by criterion.
func printVerdict(w io.Writer, raw json.RawMessage) {
	var v grader.Verdict
	if err := json.Unmarshal(raw, &v); err != nil || len(v.Criteria) == 0 {
		var said any
		if json.Unmarshal(raw, &said) == nil {
			paragraph(w, "  ", lines(said))
		}
		return
	}
	s := section{header: []string{"criterion", "earned", "offered", "why"}}
	for _, c := range v.Criteria {
		s.rows = append(s.rows, []string{criterionName(c.ID), share(c.Earned), share(c.Offered), c.Reason})
	}
	for _, g := range v.Gates {
		s.rows = append(s.rows, []string{"gate " + g.ID, "", "at most " + share(g.Cap), g.Reason})
	}
	if len(v.Invented) > 0 {
		s.note = "invented: " + strings.Join(v.Invented, ", ")
	}
	document{sections: []section{s}}.print(w, "table")
	field(w, "reply earns", share(v.PostGate))
}

// criterionName says what a criterion of the rubric looks at.
func criterionName(id string) string {
	names := map[string]string{
		"Q1": "facts", "Q2": "next step", "Q3": "questions answered", "Q4": "time frame", "Q5": "empathy",
		"Q6": "to the point", "Q7": "form", "Q8": "hand-over",
	}
	if name, ok := names[id]; ok {
		return id + " " + name
	}
	return id
}
