package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/csenv/csenv/envserver/web/printable"
)

// Section is a table with a heading. Wide cells wrap.
type Section struct {
	Heading string
	Header  []string
	Rows    [][]string
	// Note is printed below the table.
	Note string
	// Painted marks the first column as trusted: it may contain colours of a terminal.
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
		WriteParagraph(w, "", d.Title)
	}
	for i, s := range d.Sections {
		if len(s.Rows) == 0 {
			continue
		}
		if i > 0 || d.Title != "" {
			fmt.Fprintln(w)
		}
		if s.Heading != "" {
			WriteParagraph(w, "", s.Heading)
		}
		s = s.escaped(printable.EscapeText)
		t := s.table()
		t.SetColumnConfigs(s.folded())
		fmt.Fprintln(w, t.Render())
		if s.Note != "" {
			WriteParagraph(w, "", s.Note)
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
		fmt.Fprintf(w, "%s\n\n", s.escaped(markdownText).table().RenderMarkdown())
		if s.Note != "" {
			fmt.Fprintf(w, "%s\n\n", markdownText(s.Note))
		}
	}
}

// escaped is the section with harmless headers and cells.
func (s Section) escaped(escape func(string) string) Section {
	rows := make([][]string, len(s.Rows))
	for i, row := range s.Rows {
		rows[i] = MapItems(row, escape)
		if s.Painted {
			rows[i][0] = row[0]
		}
	}
	s.Header, s.Rows = MapItems(s.Header, escape), rows
	return s
}

// table builds the table of an escaped section.
func (s Section) table() table.Writer {
	t := NewTable(s.Header...)
	for _, row := range s.Rows {
		t.AppendRow(MapItems(row, func(cell string) any { return cell }))
	}
	return t
}

// gap is the space between two columns.
const gap = 2

// maxWord is the length of the longest word that isn't broken: a run's name with its UID.
const maxWord = 72

// folded narrows the widest columns of an escaped section until all fit, except columns without a
// header, which are drawings. Names that don't fit are whole nevertheless: they are to be copied.
func (s Section) folded() []table.ColumnConfig {
	widths, words := make([]int, len(s.Header)), make([]int, len(s.Header))
	for _, row := range append([][]string{s.Header}, s.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], text.LongestLineLen(cell))
			for word := range strings.FieldsSeq(cell) {
				words[i] = max(words[i], min(text.StringWidthWithoutEscSequences(word), maxWord))
			}
		}
	}
	total := gap * len(widths)
	for _, width := range widths {
		total += width
	}
	for ; total > Width; total-- {
		widest := s.widest(widths, func(i int) bool { return widths[i] > words[i] })
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	configs := make([]table.ColumnConfig, len(widths))
	for i, width := range widths {
		configs[i] = table.ColumnConfig{Number: i + 1, WidthMax: max(width, 1), WidthMaxEnforcer: wrapCell}
	}
	return configs
}

// wrapCell wraps a cell. Its lines begin where its text does.
func wrapCell(cell string, width int) string {
	body := strings.TrimLeft(cell, " ")
	indent := cell[:min(len(cell)-len(body), width-1)]
	return indent + strings.ReplaceAll(text.WrapSoft(body, width-len(indent)), "\n", "\n"+indent)
}

// widest returns the widest of the columns that may be narrowed, -1 if there is none.
func (s Section) widest(widths []int, may func(int) bool) int {
	found := -1
	for i, width := range widths {
		if s.Header[i] != "" && may(i) && (found < 0 || width > widths[found]) {
			found = i
		}
	}
	return found
}
