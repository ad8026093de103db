package episodes

import (
	"fmt"
	"io"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

// printGrade writes a grade with its parts.
func printGrade(w io.Writer, g record.Grade) {
	view.WriteHeading(w, "grade")
	view.WriteField(w, "outcome", string(g.Outcome))
	view.WriteField(w, "class", g.Class)
	if g.Score != nil {
		view.WriteField(w, "score", score.FormatDecimal(source.ToMicroPoints(*g.Score)))
	}
	view.WriteField(w, "grader", g.GraderVersion)
	view.WriteField(w, "judge", g.Judge)
	if len(g.Dimensions) > 0 {
		s := view.Section{Header: []string{"dimension", "earned", "offered", ""}}
		for _, d := range g.Dimensions {
			earned, offered := score.FormatThousandths(d.Earned), score.FormatThousandths(d.Offered)
			bar := chart.Bar{Earned: earned, Offered: offered}
			s.Rows = append(s.Rows, []string{d.Name, earned, offered, bar.Text(20)})
		}
		fmt.Fprintln(w)
		view.Document{Sections: []view.Section{s}}.Print(w, "table")
	}
}
