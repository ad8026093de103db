package episodes

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/record"
	"github.com/csenv/csenv/envserver/score"
)

// printGrade writes a grade with its parts.
func printGrade(w io.Writer, g record.Grade) {
	view.Heading(w, "grade")
	view.Field(w, "outcome", string(g.Outcome))
	view.Field(w, "class", g.Class)
	if g.Score != nil {
		view.Field(w, "score", score.Decimal(source.Micro(*g.Score)))
	}
	view.Field(w, "grader", g.GraderVersion)
	view.Field(w, "judge", g.Judge)
	if len(g.Dimensions) > 0 {
		s := view.Section{Header: []string{"dimension", "earned", "offered", ""}}
		for _, d := range g.Dimensions {
			earned, offered := view.Thousandths(d.Earned), view.Thousandths(d.Offered)
			s.Rows = append(s.Rows, []string{d.Name, earned, offered, view.Bar(earned, offered)})
		}
		fmt.Fprintln(w)
		if slices.ContainsFunc(g.Dimensions, func(d score.Dimension) bool {
			return d.Name == "penalties" && d.Earned < 0
		}) {
			s.Note = "penalties: 0.100 for each wrong, repeated, early, forbidden or malformed action, 0.020 for " +
				"each needless look-up or step beyond those required, 0.200 for reaching the step limit"
		}
		view.Document{Sections: []view.Section{s}}.Print(w, "table")
	}
}

// printVerdicts writes the verdicts of an episode whose gold is unknown.
func printVerdicts(w io.Writer, g record.Grade) {
	for i, v := range g.Verdicts {
		view.Heading(w, "judge of reply "+strconv.Itoa(i+1))
		printVerdict(w, v)
	}
}

// printVerdict writes a verdict, criterion by criterion.
func printVerdict(w io.Writer, raw json.RawMessage) {
	var v grader.Verdict
	if err := json.Unmarshal(raw, &v); err != nil || len(v.Criteria) == 0 {
		var said any
		if json.Unmarshal(raw, &said) == nil {
			view.Paragraph(w, "  ", view.YAML(said))
		}
		return
	}
	s := view.Section{Header: []string{"criterion", "earned", "offered", "why"}}
	for _, c := range v.Criteria {
		s.Rows = append(s.Rows, []string{criterionName(c.ID), view.Thousandths(c.Earned), view.Thousandths(c.Offered),
			c.Reason})
		for _, e := range c.Evidence {
			s.Rows = append(s.Rows, []string{"  " + e.Claim, "", "", evidence(e)})
		}
	}
	for _, g := range v.Gates {
		s.Rows = append(s.Rows, []string{"gate " + g.ID, "", "at most " + view.Thousandths(g.Cap), g.Reason})
	}
	if len(v.Invented) > 0 {
		s.Note = "invented: " + strings.Join(v.Invented, ", ")
	}
	view.Document{Sections: []view.Section{s}}.Print(w, "table")
	view.Field(w, "reply earns", view.Thousandths(v.PostGate))
}

// evidence describes a model's answer to a claim.
func evidence(e grader.Evidence) string {
	text := "the judge: " + e.Verdict
	if e.Quote != "" {
		text += fmt.Sprintf(", by %q", e.Quote)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Refused != "" {
		text += " (rejected by the rules: " + e.Refused + ")"
	}
	return text
}

// criterionName returns the id and a short name of a criterion of the rubric.
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
