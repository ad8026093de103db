package agreement

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
)

func TestRead(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"empty":           {in: "\n\n", want: "no replies"},
		"not JSON":        {in: "{\"scenario\": \"B01\",", want: "line 1: "},
		"unknown member":  {in: `{"scenario":"B01","reply":"x","labell":1}`, want: `unknown field "labell"`},
		"label too large": {in: "\n" + `{"scenario":"B01","reply":"x","label":80}`, want: "line 2: label is 80: give 0 to 0.5"},
		"no reply":        {in: `{"scenario":"B01"}`, want: "scenario and reply are required"},
		"two objects":     {in: `{"scenario":"B01","reply":"x"} {}`, want: "more than one JSON object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := ReadReplies(strings.NewReader(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	got, err := ReadReplies(strings.NewReader(`{"scenario":"B01","seed":3,"class":"A","label":0.5,"reply":"x","why":"y"}` + "\n"))
	want := []Reply{{Scenario: "B01", Seed: 3, Class: "A", Label: 0.5, Text: "x", Why: "y"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("replies (-want +got): %s, error %v", diff, err)
	}
}

// TestGrade grades gold and an empty reply on every scenario.
func TestGrade(t *testing.T) {
	c, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGrader(c, offline.New())
	if err != nil {
		t.Fatal(err)
	}
	check := func(id, good string, least float64) {
		t.Helper()
		best, err := g.Grade(t.Context(), Reply{Scenario: id, Seed: 7, Text: good})
		if err != nil || best.Points < least {
			t.Errorf("%s: gold earns %g, error %v", id, best.Points, err)
		}
		worst, err := g.Grade(t.Context(), Reply{Scenario: id, Seed: 7, Text: "Hello."})
		if err != nil || worst.Points > 0.12 {
			t.Errorf("%s: an empty reply earns %g, error %v", id, worst.Points, err)
		}
	}
	for _, s := range c.Tickets() {
		ticket, err := s.Instantiate(7)
		if err != nil {
			t.Fatal(err)
		}
		check(s.ID, ticket.References.Good[0], 0.45)
	}
	for _, s := range c.Workflows() {
		w, err := s.Instantiate(7)
		if err != nil {
			t.Fatal(err)
		}
		check(s.ID, w.References.Good[0], MaxLabel)
	}
	if _, err := g.Grade(t.Context(), Reply{Scenario: "Z99", Text: "x"}); err == nil {
		t.Error("a reply to an unknown scenario is graded")
	}
}

type failingJudge struct{}

func (failingJudge) Name() string { return "failing" }

func (failingJudge) Judge(context.Context, grader.Case) (grader.Verdict, error) {
	return grader.Verdict{Status: grader.StatusError}, errors.New("503")
}

func TestFailedJudgementHasNoScore(t *testing.T) {
	c, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	g, err := NewGrader(c, failingJudge{})
	if err != nil {
		t.Fatal(err)
	}
	graded, err := g.Grade(t.Context(), Reply{Scenario: "B01", Label: 0.4, Text: "x"})
	if err != nil || graded.Error != "503" {
		t.Fatalf("graded %+v, error %v", graded, err)
	}
	if f := Measure("judge", []Graded{graded}, 0.375, 5); f.Errored != 1 || f.All.Replies != 0 || len(f.Worst) != 0 {
		t.Errorf("figures %+v", f)
	}
}

func TestMeasure(t *testing.T) {
	reply := func(class string, label, points float64) Graded {
		return Graded{Reply: Reply{Class: class, Label: label}, Language: "en", Points: points}
	}
	graded := []Graded{reply("A", 0.5, 0.5), reply("A", 0.5, 0.3), reply("D", 0, 0), reply("D", 0, 0.4)}
	f := Measure("rules", graded, 0.375, 1)
	// Ranks of the labels: 3.5, 3.5, 1.5, 1.5; of the points: 4, 2, 1, 3. Their correlation is
	// 2 / sqrt(4 * 5). The judges agree on 2 of 4 and would by chance.
	want := Figures{Judge: "rules", Replies: 4, PassLine: 0.375,
		All: Group{Replies: 4, Label: 0.25, Points: 0.3, MAE: 0.15, Within: 0.5, Lenient: 0.25, Strict: 0.25,
			Spearman: new(2 / math.Sqrt(20)), Kappa: new(0.0),
			Confusion: Confusion{BothPass: 1, JudgePass: 1, LabelPass: 1, Neither: 1}},
		Classes: []Group{
			{Name: "A", Replies: 2, Label: 0.5, Points: 0.4, MAE: 0.1, Within: 0.5, Strict: 0.5, Kappa: new(0.0),
				Confusion: Confusion{BothPass: 1, LabelPass: 1}},
			{Name: "D", Replies: 2, Points: 0.2, MAE: 0.2, Within: 0.5, Lenient: 0.5, Kappa: new(0.0),
				Confusion: Confusion{JudgePass: 1, Neither: 1}},
		},
		Worst: graded[3:],
	}
	if diff := cmp.Diff(want, f, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
}
