package episodes

import (
	"io"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// printReview writes what the agent gave beside the gold, with the points of each criterion.
func printReview(w io.Writer, r transcript.Review) {
	view.Heading(w, r.Heading)
	s := view.Section{Header: []string{"criterion", "given", "gold", "points", "why"}, Note: invented(r)}
	for _, row := range r.Rows {
		s.Rows = append(s.Rows, []string{criterion(row), row.Given, row.Gold, row.Points.String(), why(row)})
	}
	view.Document{Sections: []view.Section{s}}.Print(w, "table")
	if r.Good != "" {
		view.Titled(w, "a good reply", r.Good)
	}
}

// printVerdict writes a recorded verdict, criterion by criterion.
func printVerdict(w io.Writer, r transcript.Review) {
	view.Heading(w, r.Heading)
	if r.Other != nil {
		view.Paragraph(w, "  ", view.YAML(r.Other))
	}
	if len(r.Rows) == 0 {
		return
	}
	s := view.Section{Header: []string{"criterion", "earned", "offered", "why"}, Note: invented(r)}
	for _, row := range r.Rows {
		earned, offered := "", row.Points.String()
		if p := row.Points; p != nil && p.Kind == transcript.Earned {
			earned, offered = score.Thousandths(p.Value), score.Thousandths(p.Offered)
		}
		s.Rows = append(s.Rows, []string{criterion(row), earned, offered, why(row)})
	}
	view.Document{Sections: []view.Section{s}}.Print(w, "table")
	view.Field(w, "reply earns", score.Thousandths(r.Earned))
}

// criterion is a row's first cell.
func criterion(row transcript.Row) string {
	if row.Part {
		return "  " + row.Criterion
	}
	return row.Criterion
}

func why(row transcript.Row) string {
	if row.Evidence != nil {
		return transcript.Describe(*row.Evidence)
	}
	return row.Why
}

func invented(r transcript.Review) string {
	if len(r.Invented) == 0 {
		return ""
	}
	return "invented: " + strings.Join(r.Invented, ", ")
}
