package view

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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
		row[i] = h
	}
	t.AppendHeader(row)
	return t
}

// writeCSV writes a header and records. A cell that a spreadsheet would evaluate as a formula gets
// a leading apostrophe.
func writeCSV(w io.Writer, header []string, records [][]string) error {
	for _, record := range records {
		for i, cell := range record {
			if cell != "" && strings.ContainsRune("=+@\t\r", rune(cell[0])) {
				record[i] = "'" + cell
			}
		}
	}
	if err := csv.NewWriter(w).WriteAll(append([][]string{header}, records...)); err != nil {
		return fmt.Errorf("writing CSV: %w", err)
	}
	return nil
}
