package view

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/csenv/csenv/envserver/web/printable"
)

// NewTable returns a table without lines, as kubectl prints them.
func NewTable(header ...string) table.Writer {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatUpper
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	row := make(table.Row, len(header))
	for i, h := range header {
		row[i] = printable.EscapeLine(h)
	}
	t.AppendHeader(row)
	return t
}
