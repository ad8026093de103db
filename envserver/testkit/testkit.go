// Package testkit holds helpers that the tests of several packages share: the public catalogue,
// JSON Schemas, free addresses and the memory in use.
package testkit

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/csenv/csenv/envserver/testkit/process"
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
	c, err := scenarios.LoadPublic()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// FreeAddresses returns n different addresses that servers can get as flags before they listen
// there.
func FreeAddresses(tb testing.TB, n int) []string {
	tb.Helper()
	addresses, err := process.FreeAddresses(tb.Context(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return addresses
}

// EncodeJSON encodes a value that is known to be encodable.
func EncodeJSON(v any) string {
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

// ValidateJSON fails the test if the JSON text doesn't match the schema.
func ValidateJSON(tb TB, schema *jsonschema.Schema, text string) {
	tb.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	if err := schema.Validate(value); err != nil {
		tb.Fatalf("%s: %v", text, err)
	}
}

// PlainJSON encodes a value as observations are encoded: without the escapes for HTML.
func PlainJSON(tb TB, v any) string {
	tb.Helper()
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		tb.Fatalf("encoding: %v", err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// CheckAppendJSON checks that a value's own JSON equals encoding/json's.
func CheckAppendJSON(tb TB, v interface {
	AppendJSON(b []byte) ([]byte, error)
}) {
	tb.Helper()
	got, err := v.AppendJSON([]byte("before"))
	if want := "before" + PlainJSON(tb, v); err != nil || string(got) != want {
		tb.Fatalf("AppendJSON: %v\n%s, want\n%s", err, got, want)
	}
}

// HeapInUse returns the bytes of reachable objects.
func HeapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // fewer bytes than an int64 counts
}
