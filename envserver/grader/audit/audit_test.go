package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/tasks"
)

// The scores of shortcuts on the public tickets at seed 0, in thousandths: category, priority,
// escalation, ticket-classify, the rules' part of ticket-resolve. The pass lines are 800 of
// ticket-classify and 750 of ticket-resolve. A reader of keywords may
// differ from the declared cues in one ticket of 40, which is 25.
var publicFigures = []Figures{
	{"best constant answer", 250, 250, 500, 250, 175},
	{"keyword category, always medium, resolve", 600, 250, 500, 483, 245},
	{"keyword + tone -> priority, escalate if angry", 600, 350, 500, 517, 255},
	{"keyword + level -> priority, escalate enterprise", 600, 250, 525, 483, 250},
	{"best map fitted on level", 300, 300, 550, 300, 200},
	{"best map fitted on tone", 350, 400, 575, 367, 225},
	{"best map fitted on cue", 600, 350, 600, 517, 275},
	{"true priority, keyword category, escalate iff high/urgent", 600, 1000, 500, 733, 320},
	{"oracle", 1000, 1000, 1000, 1000, 500},
}

const tolerance = 25

func TestPublicFigures(t *testing.T) {
	c := testkit.Catalog(t)
	for name, read := range map[string]Reader{"declared cue": NewCueReader(c), "keywords": scenarios.ReadKeywords} {
		t.Run(name, func(t *testing.T) {
			got, err := GradeShortcuts(c, read, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(publicFigures) {
				t.Fatalf("%d rows, want %d", len(got), len(publicFigures))
			}
			for i, want := range publicFigures {
				g := got[i]
				for figure, pair := range map[string][2]int64{
					"category": {g.Category, want.Category}, "priority": {g.Priority, want.Priority},
					"escalation":      {g.Escalation, want.Escalation},
					"ticket-classify": {g.Classify, want.Classify}, "rules": {g.Rules, want.Rules},
				} {
					if g.Policy != want.Policy || pair[0] > pair[1]+tolerance || pair[0] < pair[1]-tolerance {
						t.Errorf("%s earns %d of %s, want %s and %d within %d", g.Policy, pair[0], figure, want.Policy,
							pair[1], tolerance)
					}
				}
			}
		})
	}
}

func TestPublicCatalogueIsClean(t *testing.T) {
	findings, err := Lint(testkit.Catalog(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// small returns a catalogue of one ticket: billing, high, escalate, basic, calm, cue billing.
func small(t testing.TB) *scenarios.Catalog {
	t.Helper()
	c, err := scenarios.LoadFolders("../../../scenarios/testdata/pack")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTicketsOfOneTicket(t *testing.T) {
	c := small(t)
	got, err := GradeShortcuts(c, func(*scenarios.Ticket) string { return "general" }, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := []Figures{
		{"best constant answer", 1000, 1000, 1000, 1000, 500},
		// general is an alternate with half the credit
		{"keyword category, always medium, resolve", 500, 0, 0, 333, 100},
		{"keyword + tone -> priority, escalate if angry", 500, 0, 0, 333, 100},    // calm
		{"keyword + level -> priority, escalate enterprise", 500, 0, 0, 333, 100}, // basic
		{"best map fitted on level", 1000, 1000, 1000, 1000, 500},
		{"best map fitted on tone", 1000, 1000, 1000, 1000, 500},
		{"best map fitted on cue", 1000, 1000, 1000, 1000, 500},
		{"true priority, keyword category, escalate iff high/urgent", 500, 1000, 1000, 667, 400},
		{"oracle", 1000, 1000, 1000, 1000, 500},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got, err := GradeShortcuts(c.Split("private"), scenarios.ReadKeywords, 0); got != nil || err != nil {
		t.Errorf("of no ticket: %v, %v; want nothing", got, err)
	}
}

func TestDistributionOfOneTicket(t *testing.T) {
	got, err := CountMarginals(small(t))
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{"tickets": 1, "billing": 1, "high": 1, "escalate": 1, "basic": 1}
	var want []Marginal
	for _, of := range []string{"all", "category billing", "priority high", "escalate", "level basic", "tone calm",
		"cue right", "language en", "split public-train"} {
		want = append(want, Marginal{of, counts})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGoldAndNull(t *testing.T) {
	judge := offline.New()
	for _, s := range testkit.Catalog(t).Tickets() {
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			for seed := range int64(20) {
				ticket, err := s.Instantiate(seed)
				if err != nil {
					t.Fatal(err)
				}
				g := ticket.Gold
				gold := makeDecisions(instance{ticket: ticket}, g.Category, g.Priority, g.Escalate)
				dims := grade(t, judge, ticket, gold, ticket.References.Good[int(seed)%len(ticket.References.Good)])
				if dims[0].Earned != 200 || dims[1].Earned != 100 || dims[2].Earned != 200 || dims[3].Earned < 450 {
					t.Errorf(
						"seed %d: the gold decisions and a good reply earn %v, want 200, 100, 200 and at least 450",
						seed, dims)
				}
				for _, d := range grade(t, judge, ticket, grader.Decisions{}, "") {
					if d.Earned != 0 {
						t.Errorf("seed %d: doing nothing earns %d of %s", seed, d.Earned, d.Name)
					}
				}
			}
		})
	}
}

func grade(t *testing.T, judge grader.Judge, ticket *scenarios.Ticket, d grader.Decisions,
	reply string) []score.Dimension {
	t.Helper()
	v, err := judge.Judge(t.Context(), grader.Case{Ticket: ticket, Reply: reply, Stated: facts.Stated(ticket.Required()),
		Actions: grader.Actions{Ending: d.Ending, Team: d.Team}})
	if err != nil {
		t.Fatal(err)
	}
	dims, err := grader.GradeTicket(&ticket.Served, tasks.TicketResolve, d, v)
	if err != nil {
		t.Fatal(err)
	}
	return dims
}
