package view

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Format is the value of -o: one of a few names.
type Format struct {
	Name    string
	allowed []string
}

func FormatFlag(flags *pflag.FlagSet, allowed ...string) *Format {
	f := &Format{allowed[0], allowed}
	flags.VarP(f, "output", "o", "output format: "+strings.Join(allowed, ", "))
	return f
}

func (f *Format) String() string { return f.Name }

func (f *Format) Type() string { return "format" }

func (f *Format) Set(name string) error {
	if !slices.Contains(f.allowed, name) {
		return fmt.Errorf("choose %s", strings.Join(f.allowed, ", "))
	}
	f.Name = name
	return nil
}

// Encode writes a value as JSON or YAML.
func (f *Format) Encode(w io.Writer, v any) error {
	if f.Name == "yaml" {
		data, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("encoding as YAML: %w", err)
		}
		_, err = w.Write(data)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
