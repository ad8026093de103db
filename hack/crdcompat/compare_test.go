package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// crd returns a CRD whose spec has that schema.
func crd(schema string) string {
	return `{spec: {names: {kind: Desk}, versions: [{name: v1, served: true, schema: {openAPIV3Schema: {type: object,
  properties: {spec: ` + schema + `}}}}]}}`
}

func TestWidens(t *testing.T) {
	for _, test := range []struct {
		before, after string
		want          bool
	}{
		{"^a$", "^a$", true}, {"^a$", `^a(\?b=[c.]+)?$`, true}, {"^a$", "^a(b)$", false}, {"^a", "^a(b)?$", false},
		{"^a$", "^a(b)?c$", false}, {"", "^a$", false}, {"^a$", "^b(c)?$", false}, {"^a$", "^a(b)?(c)?d?$", false},
	} {
		if got := isWiderPattern(test.before, test.after); got != test.want {
			t.Errorf("widens(%q, %q) = %v", test.before, test.after, got)
		}
	}
}

func TestCompare(t *testing.T) {
	const spec = `{type: object, required: [a], properties: {
  a: {type: string, enum: [x, w], maxLength: 5, pattern: "^x"}, b: {type: array, minItems: 1, items: {type: integer}},
  c: {type: object, additionalProperties: {type: string, minLength: 2}}, d: {type: string, nullable: true},
  e: {type: string, description: "e is old. Deprecated: use a."}}}`
	for name, test := range map[string]struct {
		after string
		want  []string
	}{
		"the same": {crd(spec), nil},
		"wider": {crd(`{type: object, properties: {a: {type: string, enum: [x, w, z], maxLength: 6},
  b: {type: array, items: {type: integer}}, c: {type: object, additionalProperties: {type: string}},
  d: {type: string, nullable: true}, new: {type: string, enum: [p]}}}`), nil},
		"narrower": {crd(`{type: object, required: [a, b], properties: {
  a: {type: string, enum: [x], maxLength: 4, pattern: "^y"}, b: {type: array, minItems: 2, items: {type: string}},
  c: {type: object, additionalProperties: {type: string, minLength: 3}}, d: {type: string, enum: [p]}}}`), []string{
			`Desk v1.spec: b is now required`,
			`Desk v1.spec.a: "w" is no longer allowed`,
			`Desk v1.spec.a: the pattern was "^x" and is "^y"`,
			`Desk v1.spec.a: a maximum is lowered`,
			`Desk v1.spec.b: a minimum is raised`,
			`Desk v1.spec.b[]: the type was "integer" and is "string"`,
			`Desk v1.spec.c{}: a minimum is raised`,
			`Desk v1.spec.d: null is no longer allowed`,
			`Desk v1.spec.d: the values are now limited`,
		}},
		"without two fields": {crd(`{type: object, required: [a], properties: {
  a: {type: string, enum: [x, w], maxLength: 5, pattern: "^x"}, b: {type: array, minItems: 1, items: {type: integer}},
  c: {type: object, additionalProperties: {type: string, minLength: 2}}}}`), []string{`Desk v1.spec: d is removed`}},
		"without the version": {`{spec: {names: {kind: Desk}, versions: [{name: v2, served: true}]}}`,
			[]string{"Desk: version v1 is no longer served"}},
	} {
		before, err := parseCRD([]byte(crd(spec)))
		if err != nil {
			t.Fatal(err)
		}
		after, err := parseCRD([]byte(test.after))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, compareCRDs(before, after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
