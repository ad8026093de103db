package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// Section is a table with a heading. Wide cells wrap.
type Section struct {
	Heading string
	Header  []string
	Rows    [][]string
	// Note is printed below the table.
	Note string
	// Painted marks the first column as trusted: it may contain colours.
	Painted bool
}

// Document is a title and some tables.
type Document struct {
	Title    string
	Sections []Section
}

// Print writes the document as text or Markdown.
func (d Document) Print(w io.Writer, format string) {
	if format == "markdown" {
		d.markdown(w)
		return
	}
	if d.Title != "" {
		Paragraph(w, "", d.Title)
	}
	for i, s := range d.Sections {
		if len(s.Rows) == 0 {
			continue
		}
		if i > 0 || d.Title != "" {
			fmt.Fprintln(w)
		}
		if s.Heading != "" {
			Paragraph(w, "", s.Heading)
		}
		fmt.Fprintln(w, s.table(true).Render())
		if s.Note != "" {
			Paragraph(w, "", s.Note)
		}
	}
}

func (d Document) markdown(w io.Writer) {
	if d.Title != "" {
		fmt.Fprintf(w, "%s\n\n", markdownText(d.Title))
	}
	for _, s := range d.Sections {
		if len(s.Rows) == 0 {
			continue
		}
		if s.Heading != "" {
			fmt.Fprintf(w, "### %s\n\n", markdownText(s.Heading))
		}
		fmt.Fprintf(w, "%s\n\n", s.table(false).RenderMarkdown())
		if s.Note != "" {
			fmt.Fprintf(w, "%s\n\n", markdownText(s.Note))
		}
	}
}

// markdownText escapes an untrusted text and puts it on one line.
func markdownText(s string) string {
	return strings.NewReplacer(
		"\n", " ", "<", "&lt;", ">", "&gt;", "|", `\|`, "`", "'", "[", `\[`, "*", `\*`, "_", `\_`,
	).Replace(Printable(s))
}

// table builds the section's table, wrapped to the width if asked for.
func (s Section) table(fold bool) table.Writer {
	t := NewTable(s.Header...)
	for _, row := range s.Rows {
		cells := make(table.Row, len(row))
		for i, cell := range row {
			if i > 0 || !s.Painted {
				cell = Printable(cell)
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

// gap is the space between two columns.
const gap = 2

// folded narrows the widest columns until all fit.
func (s Section) folded() []table.ColumnConfig {
	widths := make([]int, len(s.Header))
	for i, h := range s.Header {
		widths[i] = text.StringWidth(h)
	}
	for _, row := range s.Rows {
		for i, cell := range row {
			if i > 0 || !s.Painted {
				cell = Printable(cell)
			}
			widths[i] = max(widths[i], text.LongestLineLen(cell))
		}
	}
	total := gap * len(widths)
	for _, width := range widths {
		total += width
	}
	for ; total > Width; total-- {
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
