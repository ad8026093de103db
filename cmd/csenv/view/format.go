package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Result is the result of a command in each of the formats.
type Result struct {
	Value    any        // JSON and YAML
	Header   []string   // CSV
	Rows     [][]string // CSV
	Document Document   // text and Markdown
}

// Print writes a result in the format.
func (f *Format) Print(w io.Writer, r Result) error {
	switch f.Name {
	case "json", "yaml":
		return f.Encode(w, r.Value)
	case "csv":
		return writeCSV(w, r.Header, r.Rows)
	}
	r.Document.Print(w, f.Name)
	return nil
}

// Format is the value of -o: one of a few names.
type Format struct {
	Name    string
	allowed []string
}

// FormatFlag adds -o with the allowed formats; the first is the default.
func FormatFlag(flags *pflag.FlagSet, allowed ...string) *Format {
	f := &Format{allowed[0], allowed}
	flags.VarP(f, "output", "o", "output format: "+strings.Join(allowed, ", "))
	return f
}

// String returns the name of the format.
func (f *Format) String() string { return f.Name }

// Type names the kind of value in help texts.
func (f *Format) Type() string { return "format" }

// Set accepts an allowed name.
func (f *Format) Set(name string) error {
	if !slices.Contains(f.allowed, name) {
		if strings.Contains(name, ".") {
			return fmt.Errorf("choose one of %s; -o is a format, and -O or > names a file",
				strings.Join(f.allowed, ", "))
		}
		return fmt.Errorf("choose one of %s", strings.Join(f.allowed, ", "))
	}
	f.Name = name
	return nil
}

// Encode writes a value as JSON or YAML.
func (f *Format) Encode(w io.Writer, v any) error {
	text, err := encodeJSON(v, jsonEscape)
	if f.Name == "yaml" {
		text, err = encodeYAML(v)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	return err
}
