package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// section is a table with a heading. Rows hold what is shown; a cell may fold.
type section struct {
	heading string
	header  []string
	rows    [][]string
	// note stands below the table.
	note string
	// painted says that the first column is csenv's own, with its colours.
	painted bool
}

// document is what a command shows: a line at the top and some tables.
type document struct {
	title    string
	sections []section
}

// print writes the document as text or Markdown.
func (d document) print(w io.Writer, format string) {
	if format == "markdown" {
		d.markdown(w)
		return
	}
	if d.title != "" {
		paragraph(w, "", d.title)
	}
	for i, s := range d.sections {
		if len(s.rows) == 0 {
			continue
		}
		if i > 0 || d.title != "" {
			fmt.Fprintln(w)
		}
		if s.heading != "" {
			paragraph(w, "", s.heading)
		}
		fmt.Fprintln(w, s.table(true).Render())
		if s.note != "" {
			paragraph(w, "", s.note)
		}
	}
}

func (d document) markdown(w io.Writer) {
	if d.title != "" {
		fmt.Fprintf(w, "%s\n\n", markdownText(d.title))
	}
	for _, s := range d.sections {
		if len(s.rows) == 0 {
			continue
		}
		if s.heading != "" {
			fmt.Fprintf(w, "### %s\n\n", markdownText(s.heading))
		}
		fmt.Fprintf(w, "%s\n\n", s.table(false).RenderMarkdown())
		if s.note != "" {
			fmt.Fprintf(w, "%s\n\n", markdownText(s.note))
		}
	}
}

// markdownText keeps a text on one line and from being markup: it may be anybody's.
func markdownText(s string) string {
	return strings.NewReplacer("\n", " ", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "'", "[", `\[`, "*", `\*`, "_", `\_`).Replace(printable(s))
}

// table is the section's, folded to the width if that is asked for.
func (s section) table(fold bool) table.Writer {
	t := newTable(s.header...)
	for _, row := range s.rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			if i > 0 || !s.painted {
				cell = printable(cell)
			}
			cells[i] = cell
		}
		t.AppendRow(cells)
	}
	if fold {
		t.SetColumnConfigs(s.folded())
	}
	return t
}

// gap is what newTable puts between two columns.
const gap = 2

// folded narrows the widest columns until all fit.
func (s section) folded() []table.ColumnConfig {
	widths := make([]int, len(s.header))
	for i, h := range s.header {
		widths[i] = text.StringWidth(h)
	}
	for _, row := range s.rows {
		for i, cell := range row {
			if i > 0 || !s.painted {
				cell = printable(cell)
			}
			widths[i] = max(widths[i], text.LongestLineLen(cell))
		}
	}
	total := gap * len(widths)
	for _, width := range widths {
		total += width
	}
	for ; total > columns; total-- {
		widest := 0
		for i, width := range widths {
			if width > widths[widest] {
				widest = i
			}
		}
		widths[widest]--
	}
	configs := make([]table.ColumnConfig, len(widths))
	for i, width := range widths {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: max(width, 1), WidthMaxEnforcer: text.WrapSoft}
	}
	return configs
}
