// Package testkit holds helpers that the tests of several packages share: the public catalogue and
// JSON Schemas.
package testkit

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/csenv/csenv/scenarios"
)

// TB is the part of testing.TB and of rapid.TB that the helpers use.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Catalog returns the public catalogue.
func Catalog(tb TB) *scenarios.Catalog {
	tb.Helper()
	c, err := scenarios.Public()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// JSON encodes a value that is known to be encodable.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// CompileSchema compiles a JSON Schema, given as JSON text or as a value that is encoded.
func CompileSchema(tb TB, schema any) *jsonschema.Schema {
	tb.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		tb.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("mem:schema", doc); err != nil {
		tb.Fatal(err)
	}
	compiled, err := compiler.Compile("mem:schema")
	if err != nil {
		tb.Fatal(err)
	}
	return compiled
}

// Validate fails the test if the JSON text doesn't match the schema.
func Validate(tb TB, schema *jsonschema.Schema, text string) {
	tb.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}
