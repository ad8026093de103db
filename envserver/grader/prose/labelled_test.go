package prose

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/scenarios"
)

// labelledReply is an entry of testdata/labelled.yaml.
type labelledReply struct {
	Ticket    string `yaml:"ticket"`
	Escalated *bool  `yaml:"escalated"`
	Label     int    `yaml:"label"`
	// Seed is the seed of the instance for which the reply was written, 0 if it fits any.
	Seed int64  `yaml:"seed"`
	Text string `yaml:"text"`
}

// sendable is the lowest label of an acceptable reply, sendablePoints the points that it must earn:
// with these, a ticket with all decisions right passes.
const sendable, sendablePoints = 3, 250

// TestAgreementWithLabels compares the judge with a person: the rank correlation of points and
// labels, and the share of replies on which both agree.
func TestAgreementWithLabels(t *testing.T) {
	replies := loadLabelled(t)
	catalogue, err := scenarios.LoadPublic()
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	figures := map[string]*agreement{"all": {}}
	for _, r := range replies {
		s, ok := catalogue.Ticket(r.Ticket)
		if !ok {
			t.Fatalf("the catalogue has no ticket %s", r.Ticket)
		}
		ticket, reply := r.fill(t, s)
		if ticket == nil {
			t.Logf("%s: seed %d now draws another customer", r.Ticket, r.Seed)
			continue
		}
		v, err := o.Judge(t.Context(), grader.Case{Ticket: ticket, Reply: reply, Actions: r.actions(ticket)})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"all", ticket.Language} {
			if figures[name] == nil {
				figures[name] = &agreement{}
			}
			figures[name].add(r.Label, v.PostGate)
		}
		if (r.Label >= sendable) != (v.PostGate >= sendablePoints) {
			t.Logf("%s: labelled %d, earned %d\n%s%s", r.Ticket, r.Label, v.PostGate, explain(v), reply)
		}
		if r.Label >= 4 && v.PostGate <= unsupportedCap || r.Label <= 1 && v.PostGate >= sendablePoints {
			t.Errorf("%s: labelled %d, earned %d\n%s%s", r.Ticket, r.Label, v.PostGate, explain(v), reply)
		}
	}
	for _, name := range slices.Sorted(keys(figures)) {
		t.Logf("%s: %s", name, figures[name])
	}
	const wantRank, wantPass = 0.8, 0.9
	if all := figures["all"]; all.spearman() < wantRank || all.passing() < wantPass {
		t.Errorf("agreement is %s, want a rank correlation of at least %.2f and %.0f %% alike", all, wantRank,
			100*wantPass)
	}
}

func keys(m map[string]*agreement) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func loadLabelled(tb testing.TB) []labelledReply {
	tb.Helper()
	data, err := os.ReadFile("testdata/labelled.yaml")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		Replies []labelledReply `yaml:"replies"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		tb.Fatal(err)
	}
	return file.Replies
}

var gap = regexp.MustCompile(`\{\w+(\|\w+)?\}`)

// actions returns the actions of the reply's writer. These are gold's, except for a reply to a
// given instance that states others.
func (r labelledReply) actions(ticket *scenarios.Ticket) grader.Actions {
	switch {
	case r.Seed == 0 || r.Escalated == nil:
		return goldActions(ticket)
	case *r.Escalated:
		return grader.Actions{Ending: grader.Escalated, Team: ticket.Gold.Team}
	}
	return grader.Actions{Ending: grader.Resolved}
}

// seeded returns the instance for which the reply was written, or nil if the seed now draws another
// one.
func (r labelledReply) seeded(t *testing.T, s *scenarios.TicketScenario) *scenarios.Ticket {
	t.Helper()
	ticket := instance(t, s, r.Seed)
	d := newLibraries()[ticket.Language]().read(r.Text)
	if r.Label >= 4 && !hasSalutation(d, nameSet(ticket.Customer)) {
		return nil
	}
	return ticket
}

// fill finds the first seed whose ticket has everything that the reply names, and fills it in.
func (r labelledReply) fill(t *testing.T, s *scenarios.TicketScenario) (*scenarios.Ticket, string) {
	t.Helper()
	if r.Seed != 0 {
		return r.seeded(t, s), r.Text
	}
	for seed := range int64(200) {
		ticket := instance(t, s, seed)
		if r.Escalated != nil && *r.Escalated != ticket.Gold.Escalate {
			continue
		}
		names := strings.Fields(ticket.Customer.Name)
		text := strings.NewReplacer("{given}", names[0], "{family}", names[len(names)-1]).Replace(r.Text)
		for _, f := range ticket.Reply.Facts {
			text = fillFact(text, f)
		}
		if !gap.MatchString(text) {
			return ticket, text
		}
	}
	t.Fatalf("no seed of %s fills %q", s.ID, r.Text)
	return nil, ""
}

// fillFact inserts a fact's value, in each of its spellings.
func fillFact(text string, f scenarios.Fact) string {
	pairs := []string{"{" + f.ID + "}", f.Value, "{" + f.ID + "|words}", respell(f.Value)}
	if amount, ok := strings.CutPrefix(f.Value, "$"); ok {
		whole := strings.TrimSuffix(amount, ".00")
		pairs = append(pairs, "{"+f.ID+"|usd}", "USD "+amount, "{"+f.ID+"|whole}", "$"+whole, "{"+f.ID+"|dollars}",
			strings.ReplaceAll(whole, ",", "")+" dollars")
	}
	if day, err := time.Parse("January 2, 2006", f.Value); err == nil {
		pairs = append(pairs, "{"+f.ID+"|day}", "the "+ordinal(day.Day()))
	}
	for _, form := range f.Accept {
		if _, err := time.Parse("January 2, 2006", form); err == nil {
			pairs = append(pairs, "{"+f.ID+"|date}", form)
		}
	}
	if _, last, ok := strings.Cut(f.Value, " to "); ok {
		pairs = append(pairs, "{"+f.ID+"|last}", last)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

func ordinal(n int) string {
	ending := "th"
	if n%100/10 != 1 {
		ending = map[int]string{1: "st", 2: "nd", 3: "rd"}[n%10]
		if ending == "" {
			ending = "th"
		}
	}
	return fmt.Sprint(n) + ending
}

// agreement compares labels with points.
type agreement struct {
	labels, points []float64
	alike          int
}

func (a *agreement) add(label int, points int64) {
	a.labels, a.points = append(a.labels, float64(label)), append(a.points, float64(points))
	if (label >= sendable) == (points >= sendablePoints) {
		a.alike++
	}
}

func (a *agreement) passing() float64 { return float64(a.alike) / float64(len(a.labels)) }

// spearman returns the correlation of the ranks, with mean ranks for ties.
func (a *agreement) spearman() float64 {
	x, y := ranks(a.labels), ranks(a.points)
	mean := float64(len(x)+1) / 2
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mean) * (y[i] - mean)
		xx += (x[i] - mean) * (x[i] - mean)
		yy += (y[i] - mean) * (y[i] - mean)
	}
	return xy / math.Sqrt(xx*yy)
}

func (a *agreement) String() string {
	return fmt.Sprintf("%d replies, rank correlation %.2f, %.0f %% pass or fail alike", len(a.labels), a.spearman(),
		100*a.passing())
}

func ranks(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		below, same := 0, 0
		for _, w := range values {
			if w < v {
				below++
			}
			if w == v {
				same++
			}
		}
		out[i] = float64(below) + float64(same+1)/2
	}
	return out
}
