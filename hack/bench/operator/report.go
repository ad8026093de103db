package operator

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// figure is one thing that was measured.
type figure struct {
	name  string
	value float64
	unit  string
	// detail explains the value, and may be empty.
	detail string
}

// maxDetail is the width of the last column.
const maxDetail = 80

// reportFigures prints the figures and reports whether all of them are within their ranges. A range
// without a figure is an error.
func reportFigures(w io.Writer, s scenario, figures []figure, ranges map[string]span) (bool, error) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetTitle("%s: %s", s.name, s.about)
	t.SetColumnConfigs([]table.ColumnConfig{{Number: 5, WidthMax: maxDetail, WidthMaxEnforcer: text.WrapSoft}})
	t.AppendHeader(table.Row{"figure", "value", "range", "", "detail"})
	kept, left := true, maps.Clone(ranges)
	for _, f := range figures {
		allowed, verdict := "", ""
		if r, ok := ranges[f.name]; ok {
			if r.Unit != f.unit {
				return false, fmt.Errorf("the range of %q is in %q, but the figure is in %q", f.name, r.Unit, f.unit)
			}
			allowed, verdict = r.String(), "ok"
			if !r.holds(f.value) {
				verdict, kept = "MISSED", false
			}
		}
		delete(left, f.name)
		t.AppendRow(table.Row{f.name, fmt.Sprintf("%.4g %s", f.value, f.unit), allowed, verdict, f.detail})
	}
	if len(left) > 0 {
		return false, fmt.Errorf("no figure is called %q", slices.Sorted(maps.Keys(left))[0])
	}
	t.Render()
	return kept, nil
}

// holds reports whether the value is within the range.
func (s span) holds(value float64) bool {
	return (s.Min == nil || value >= *s.Min) && (s.Max == nil || value <= *s.Max)
}
