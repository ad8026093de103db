package view

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// NewTable makes a table without lines, as kubectl's are.
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
		row[i] = h
	}
	t.AppendHeader(row)
	return t
}

// WriteCSV writes a header and records. A cell that a spreadsheet would take for a formula is
// marked as text.
func WriteCSV(w io.Writer, header []string, records [][]string) error {
	out := csv.NewWriter(w)
	if err := out.Write(header); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	for _, record := range records {
		for i, cell := range record {
			if cell != "" && strings.ContainsRune("=+@\t\r", rune(cell[0])) {
				record[i] = "'" + cell
			}
		}
		if err := out.Write(record); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	out.Flush()
	return out.Error()
}
