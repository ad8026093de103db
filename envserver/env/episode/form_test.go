package episode_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/testkit"
)

func testForm() *episode.Form {
	return episode.NewForm("Test", []episode.Field{
		{Name: "colour", Description: "A colour.", Enum: []string{"red", "green"}},
		{Name: "text", Description: "A text.", MaxLength: 5},
		{Name: "payload", Description: "Details.", Properties: []episode.Field{{Name: "id", MaxLength: 4},
			{Name: "amount", MaxLength: 6, Number: true}}},
	}, []episode.Variant{
		{Type: "paint", Description: "Paints.", Optional: []string{"colour", "payload"},
			AnyOf: []string{"colour", "payload"}},
		{Type: "say", Description: "Speaks.", Required: []string{"text"}, Optional: []string{"payload"}},
		{Type: "stop", Description: "Stops."},
	})
}

func TestDecodeReadsFields(t *testing.T) {
	action, err := testForm().Decode(json.RawMessage(
		` {"action_type":"say","text":"h\u00e9","payload":{"id":"a1","amount":12.50},"colour":null,` +
			`"metadata":{"x":[1]}} `))
	if err != nil {
		t.Fatalf("Decode() error = %v", err)
	}
	got := []string{action.Type, action.Get("text"), action.Get("payload.id"), action.Get("payload.amount"),
		action.Get("colour")}
	if diff := cmp.Diff([]string{"say", "hé", "a1", "12.50", ""}, got); diff != "" {
		t.Errorf("Decode() (-want +got):\n%s", diff)
	}
}

func TestDecodeListsEveryFault(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	tests := map[string]struct {
		action string
		want   []episode.ErrorItem
	}{
		"no object": {`[1]`, []episode.ErrorItem{{
			Type: "model_type", Loc: []any{},
			Msg:   `an action is a JSON object with an action_type, for example {"action_type": "paint"}`,
			Input: raw(`[1]`),
		}}},
		"null": {`null`, []episode.ErrorItem{{
			Type: "model_type", Loc: []any{},
			Msg:   `an action is a JSON object with an action_type, for example {"action_type": "paint"}`,
			Input: raw(`null`),
		}}},
		"no type": {`{}`, []episode.ErrorItem{{Type: "missing", Loc: []any{"action_type"},
			Msg: "action_type is required: one of 'paint', 'say', 'stop'"}}},
		"wrong type": {`{"action_type":"fly"}`, []episode.ErrorItem{{
			Type: "literal_error", Loc: []any{"action_type"},
			Msg: "action_type should be one of 'paint', 'say', 'stop'", Input: raw(`"fly"`),
		}}},
		"several faults": {`{"action_type":"say","zeta":1,"alpha":2,"metadata":3}`, []episode.ErrorItem{
			{Type: "extra_forbidden", Loc: []any{"alpha"}, Msg: `"alpha" is not a field of an action: leave it out`,
				Input: raw("2")},
			{Type: "extra_forbidden", Loc: []any{"zeta"}, Msg: `"zeta" is not a field of an action: leave it out`,
				Input: raw("1")},
			{Type: "missing", Loc: []any{"text"}, Msg: "say needs text"},
			{Type: "dict_type", Loc: []any{"metadata"}, Msg: "metadata should be a JSON object", Input: raw("3")},
		}},
		"wrong enum": {`{"action_type":"paint","colour":"Red"}`, []episode.ErrorItem{{
			Type: "literal_error", Loc: []any{"colour"}, Msg: "colour should be one of 'red', 'green'",
			Input: raw(`"Red"`),
		}}},
		"unused field": {`{"action_type":"stop","text":"a"}`, []episode.ErrorItem{{
			Type: "extra_forbidden", Loc: []any{"text"}, Msg: "stop does not use text: leave it out or send null",
			Input: raw(`"a"`),
		}}},
		"empty text": {`{"action_type":"say","text":""}`, []episode.ErrorItem{{
			Type: "string_too_short", Loc: []any{"text"}, Msg: "text should have at least 1 character",
			Input: raw(`""`),
		}}},
		"long text": {`{"action_type":"say","text":"éééééé"}`, []episode.ErrorItem{{
			Type: "string_too_long", Loc: []any{"text"}, Msg: "text should have at most 5 characters",
			Input: raw(`"éééééé"`),
		}}},
		"no text": {`{"action_type":"say","text":7}`, []episode.ErrorItem{{
			Type: "string_type", Loc: []any{"text"}, Msg: "text should be a string", Input: raw("7"),
		}}},
		"not one of the choices": {`{"action_type":"paint","payload":null}`, []episode.ErrorItem{{
			Type: "missing", Loc: []any{"colour"}, Msg: "paint needs colour or payload",
		}}},
		"payload no object": {`{"action_type":"say","text":"a","payload":"{}"}`, []episode.ErrorItem{{
			Type: "dict_type", Loc: []any{"payload"}, Msg: "payload should be a JSON object or null",
			Input: raw(`"{}"`),
		}}},
		"payload's fields": {`{"action_type":"say","text":"a","payload":{"x":0,"id":"12345","amount":true}}`,
			[]episode.ErrorItem{
				{Type: "extra_forbidden", Loc: []any{"payload", "x"}, Msg: `payload has no field "x": leave it out`,
					Input: raw("0")},
				{Type: "string_too_long", Loc: []any{"payload", "id"},
					Msg:   "payload.id should have at most 4 characters",
					Input: raw(`"12345"`)},
				{Type: "string_type", Loc: []any{"payload", "amount"}, Msg: "payload.amount should be a string",
					Input: raw("true")},
			}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := testForm().Decode(json.RawMessage(tc.action))
			var invalid *episode.ActionError
			if !errors.As(err, &invalid) {
				t.Fatalf("Decode() error = %v, want an ActionError", err)
			}
			if diff := cmp.Diff(tc.want, invalid.Items); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeEchoesNoHugeInput(t *testing.T) {
	_, err := testForm().Decode(json.RawMessage(`{"action_type":"` + strings.Repeat("x", 100_000) + `"}`))
	var invalid *episode.ActionError
	if !errors.As(err, &invalid) || len(invalid.Items) != 1 || invalid.Items[0].Input != nil {
		t.Errorf("Decode() error = %.200v, want one item without input", err)
	}
}

// TestDecodeBoundsMembers checks that the number of an action's members is bounded during decoding,
// and so is the number of listed faults.
func TestDecodeBoundsMembers(t *testing.T) {
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `,"k%d%s":0`, i, strings.Repeat("é", 200))
	}
	for name, raw := range map[string]string{
		"action":  `{"action_type":"stop"` + many.String() + `}`,
		"payload": `{"action_type":"say","text":"a","payload":{"id":"a"` + many.String() + `}}`,
		"both":    `{"action_type":"say","payload":{"id":"a"` + many.String()[:40*408] + `}` + many.String()[:40*408] + `}`,
	} {
		var invalid *episode.ActionError
		if n := testing.AllocsPerRun(1, func() { _, _ = testForm().Decode(json.RawMessage(raw)) }); n > 1000 {
			t.Errorf("%s: %.0f allocations", name, n)
		}
		_, err := testForm().Decode(json.RawMessage(raw))
		if !errors.As(err, &invalid) || len(invalid.Items) > episode.MaxErrorItems || len(err.Error()) > 8<<10 {
			t.Errorf("%s: %.9000v", name, err)
		}
	}
}

func TestDecodeAgreesWithSchema(t *testing.T) {
	schema := testkit.CompileSchema(t, testForm().Schema())
	values := []string{`null`, `"red"`, `"green"`, `"blue"`, `""`, `"abcde"`, `"abcdef"`, `"ééééé"`, `5`, `true`,
		`[]`, `{}`, `{"a":{"b":1}}`, `{"id":"x","amount":1e3}`, `{"id":null,"amount":"$12"}`, `{"id":1}`,
		`{"amount":""}`, `-0.5`, `"paint"`, `"say"`, `"stop"`}
	keys := []string{"action_type", "colour", "text", "payload", "metadata", "other"}
	sound := [][]string{{`"action_type":"paint"`, `"colour":"red"`}, {`"action_type":"say"`, `"text":"abcde"`,
		`"payload":{"id":"x"}`}, {`"action_type":"stop"`, `"metadata":{}`}}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		// A valid action, often changed: with additional members, another type, or without its
		// first member.
		members := slices.Clone(rapid.SampledFrom(sound).Draw(t, "sound"))
		if rapid.Bool().Draw(t, "spoil") {
			members[0] = `"action_type":"` + rapid.SampledFrom([]string{"paint", "say", "stop", "fly"}).Draw(t,
				"type") + `"`
			for range rapid.IntRange(0, 4).Draw(t, "members") {
				members = append(members, `"`+rapid.SampledFrom(keys).Draw(t, "key")+`" : `+rapid.SampledFrom(
					values).Draw(t, "value"))
			}
			members = members[rapid.IntRange(0, 1).Draw(t, "drop"):]
		}
		raw := " { " + strings.Join(members, " , ") + " } "
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
		if err != nil {
			t.Skip("no JSON")
		}
		_, decodeErr := testForm().Decode(json.RawMessage(raw))
		if schemaErr := schema.Validate(value); (schemaErr == nil) != (decodeErr == nil) {
			t.Fatalf("%s: the schema returns %v, Decode returns %v", raw, schemaErr, decodeErr)
		}
		if decodeErr == nil {
			accepted++
		}
	})
	if accepted == 0 {
		t.Error("no generated action was accepted")
	}
}

func BenchmarkDecode(b *testing.B) {
	form := testForm()
	raw := json.RawMessage(`{"action_type":"say","text":"hello","payload":{"id":"LD-1"},"colour":null}`)
	for b.Loop() {
		if _, err := form.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}
