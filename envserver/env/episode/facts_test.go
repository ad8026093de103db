package episode_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/scenarios/facts"
)

// factsForm returns a form whose actions have facts, of their own or in an object.
func factsForm(object bool) *episode.Form {
	fields := []episode.Field{{Name: "message", MaxLength: 9, Description: "A text."}, episode.FactsField()}
	if object {
		return episode.NewForm("Test", []episode.Field{{Name: "payload", Description: "Details.", Properties: fields}},
			[]episode.Variant{{Type: "say", Description: "speaks.", Optional: []string{"payload"},
				Properties: []string{"message", "facts"}}})
	}
	return episode.NewForm("Test", fields, []episode.Variant{
		{Type: "say", Description: "speaks.", Required: []string{"message"}, Optional: []string{"facts"}},
		{Type: "stop", Description: "stops."}})
}

func TestDecodeReadsFacts(t *testing.T) {
	stated := []facts.Fact{{What: "refund_amount", Value: "$59.40"}, {What: "count", Value: "1.50"}, {What: "place"},
		{What: "team", Value: `"a"`}}
	const sent = ` [ {"what":"refund_amount","value":"$59.40"}, {"value":1.50,"what":"count"},` +
		`{"what":"place","value":""},{"what":"te\u0061m","value":"\"a\"","what":"team"}]`
	for name, c := range map[string]struct {
		object bool
		action string
		want   []facts.Fact
	}{
		"own":        {false, `{"action_type":"say","message":"a","facts":` + sent + `}`, stated},
		"in payload": {true, `{"action_type":"say","payload":{"message":"a","facts":` + sent + `}}`, stated},
		"null":       {false, `{"action_type":"say","message":"a","facts":null}`, nil},
		"absent":     {false, `{"action_type":"say","message":"a"}`, nil},
		"empty":      {true, `{"action_type":"say","payload":{"facts":[ ]}}`, nil},
		"elsewhere":  {false, `{"action_type":"stop","facts":null}`, nil},
		"eight": {false, `{"action_type":"say","message":"a","facts":[` +
			strings.Repeat(`{"what":"count","value":1},`, 7) + `{"what":"count","value":1}]}`,
			slices.Repeat([]facts.Fact{{What: "count", Value: "1"}}, 8)},
	} {
		action, err := factsForm(c.object).Decode(json.RawMessage(c.action))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, action.Facts()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

func TestDecodeListsTheFaultsOfFacts(t *testing.T) {
	names := "'" + strings.Join(whats(), "', '") + "'"
	type items = []episode.ErrorItem
	input := func(s string) json.RawMessage { return json.RawMessage(s) }
	for name, c := range map[string]struct {
		object bool
		facts  string
		want   items
	}{
		"no list": {false, `{"team":"legal"}`, items{{Type: "list_type", Loc: []any{"facts"},
			Msg:   `facts should be a list of facts, each {"what": …, "value": …}, or null`,
			Input: input(`{"team":"legal"}`)}}},
		"a text": {true, `"[]"`, items{{Type: "list_type", Loc: []any{"payload", "facts"},
			Msg: `payload.facts should be a list of facts, each {"what": …, "value": …}, or null`, Input: input(`"[]"`)}}},
		"nine": {false, `[0,0,0,0,0,0,0,0,0]`, items{{Type: "too_long", Loc: []any{"facts"},
			Msg: "facts should have at most 8 facts", Input: input(`[0,0,0,0,0,0,0,0,0]`)}}},
		"no fact": {false, `["team",null]`, items{
			{Type: "dict_type", Loc: []any{"facts", 0}, Msg: "facts[0] should be a JSON object", Input: input(`"team"`)},
			{Type: "dict_type", Loc: []any{"facts", 1}, Msg: "facts[1] should be a JSON object", Input: input("null")}}},
		"an unknown name": {true, `[{"what":"count","value":"1"},{"what":"refund","value":"1"}]`, items{
			{Type: "literal_error", Loc: []any{"payload", "facts", 1, "what"},
				Msg: "payload.facts[1].what should be one of " + names, Input: input(`"refund"`)}}},
		"incomplete": {false, `[{}]`, items{
			{Type: "missing", Loc: []any{"facts", 0, "what"}, Msg: "facts[0] needs what"},
			{Type: "missing", Loc: []any{"facts", 0, "value"}, Msg: "facts[0] needs value"}}},
		"other members": {false, `[{"what":"count","value":null,"about":"a"}]`, items{
			{Type: "extra_forbidden", Loc: []any{"facts", 0, "about"}, Msg: `facts[0] has no field "about": leave it out`,
				Input: input(`"a"`)},
			{Type: "string_type", Loc: []any{"facts", 0, "value"}, Msg: "facts[0].value should be a string",
				Input: input("null")}}},
		"a long value": {false, `[{"what":"count","value":"` + strings.Repeat("é", 201) + `"}]`, items{
			{Type: "string_too_long", Loc: []any{"facts", 0, "value"},
				Msg:   "facts[0].value should have at most 200 characters",
				Input: input(`"` + strings.Repeat("é", 201) + `"`)}}},
	} {
		action := `{"action_type":"say","message":"a","facts":` + c.facts + `}`
		if c.object {
			action = `{"action_type":"say","payload":{"facts":` + c.facts + `}}`
		}
		_, err := factsForm(c.object).Decode(json.RawMessage(action))
		var invalid *episode.ActionError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(c.want, invalid.Items); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// The length of a number counts as well.
func TestDecodeBoundsNumbersOfFacts(t *testing.T) {
	_, err := factsForm(false).Decode(json.RawMessage(`{"action_type":"say","message":"a","facts":[{"what":"count",` +
		`"value":1` + strings.Repeat("0", 200) + `}]}`))
	var invalid *episode.ActionError
	if !errors.As(err, &invalid) || invalid.Items[0].Type != "string_too_long" {
		t.Errorf("%v", err)
	}
}

func TestDecodeBoundsFacts(t *testing.T) {
	long := json.RawMessage(`{"action_type":"say","message":"a","facts":[` + strings.Repeat(`{"what":0},`, 100_000) +
		`0]}`)
	if n := testing.AllocsPerRun(1, func() { _, _ = factsForm(false).Decode(long) }); n > 200 {
		t.Errorf("%.0f allocations", n)
	}
	_, err := factsForm(false).Decode(json.RawMessage(`{"action_type":"say","message":"a","facts":[` +
		strings.Repeat(`{"a":0,"b":0,"c":0},`, 7) + `0]}`))
	var invalid *episode.ActionError
	if !errors.As(err, &invalid) || len(invalid.Items) != episode.MaxErrorItems {
		t.Errorf("%v", err)
	}
}

// The decoder accepts the actions that the schemas accept. The schema of a tool is narrower: a
// value is a text, and the schema has no maximum lengths, which only the decoder checks.
func TestFactsAgreeWithTheSchemas(t *testing.T) {
	form := factsForm(false)
	whole := testkit.CompileSchema(t, form.Schema())
	list, err := form.Tools()
	if err != nil {
		t.Fatal(err)
	}
	tool := testkit.CompileSchema(t, list[0].InputSchema)
	member := rapid.SampledFrom([]string{`"what":"team"`, `"what":"colour"`, `"what":null`, `"value":"legal"`,
		`"value":""`, `"value":7`, `"value":1e2`, `"value":null`, `"value":["a"]`, `"about":"a"`})
	fact := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 3).Draw(t, "sound") > 0 {
			return `{"what":"count","value":` + rapid.SampledFrom([]string{`"1"`, `1.5`}).Draw(t, "value") + `}`
		}
		return "{" + strings.Join(rapid.SliceOfNDistinct(member, 0, 3, func(m string) string { return m[:6] }).
			Draw(t, "members"), ",") + "}"
	})
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		stated := rapid.OneOf(rapid.SampledFrom([]string{"null", "[]", "{}", `"a"`, "[null]"}),
			rapid.Custom(func(t *rapid.T) string {
				return "[" + strings.Join(rapid.SliceOfN(fact, 0, 9).Draw(t, "facts"), ",") + "]"
			})).Draw(t, "list")
		members := `"message":"a","facts":` + stated
		_, decodeErr := form.Decode(json.RawMessage(`{"action_type":"say",` + members + `}`))
		if err := validate(t, whole, `{"action_type":"say",`+members+`}`); (err == nil) != (decodeErr == nil) {
			t.Fatalf("%s: the schema returns %v, Decode returns %v", stated, err, decodeErr)
		}
		long := errors.As(decodeErr, new(*episode.ActionError)) && strings.Contains(decodeErr.Error(), "at most 8")
		if err := validate(t, tool, "{"+members+"}"); err == nil && decodeErr != nil && !long {
			t.Fatalf("%s: the tool's schema accepts it, Decode returns %v", stated, decodeErr)
		}
		seen[decodeErr == nil]++
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("accepted and refused: %v", seen)
	}
}

func validate(t *rapid.T, schema *jsonschema.Schema, text string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(value)
}

// A tool's schema has what the strict modes of endpoints support, and the name before the value.
// One tool explains the names.
func TestToolsDescribeFacts(t *testing.T) {
	names, err := json.Marshal(whats())
	if err != nil {
		t.Fatal(err)
	}
	variants := []episode.Variant{{Type: "stop"}, {Type: "say", Optional: []string{"facts"}},
		{Type: "end", Optional: []string{"facts"}}}
	inside := []episode.Variant{{Type: "look", Optional: []string{"payload"}, Properties: []string{"id"}},
		{Type: "say", Optional: []string{"payload"}, Properties: []string{"facts"}},
		{Type: "end", Optional: []string{"payload"}, Properties: []string{"facts", "id"}}}
	fields := []episode.Field{{Name: "id", MaxLength: 4}, episode.FactsField()}
	for name, form := range map[string]*episode.Form{
		"own":          episode.NewForm("Test", fields, variants),
		"in an object": episode.NewForm("Test", []episode.Field{{Name: "payload", Properties: fields}}, inside),
	} {
		list, err := form.Tools()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(list[0].InputSchema), "facts") {
			t.Errorf("%s: %s", name, list[0].InputSchema)
		}
		for i, explained := range []string{"\n" + facts.Describe(), " The tool say explains the names."} {
			about, err := json.Marshal("What is stated." + explained)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"anyOf":[{"items":{"additionalProperties":false,"properties":{"what":{"description":` + string(about) +
				`,"enum":` + string(names) + `,"type":"string"},"value":{"description":"Its value, in any usual form.",` +
				`"type":"string"}},"required":["what","value"],"type":"object"},"type":"array"},{"type":"null"}]`
			if got := string(list[i+1].InputSchema); !strings.Contains(got, want) {
				t.Errorf("%s: %s\nlacks\n%s", name, got, want)
			}
		}
	}
}

func whats() []string {
	var names []string
	for _, n := range facts.Vocabulary {
		names = append(names, n.What)
	}
	return names
}

func BenchmarkDecodeFacts(b *testing.B) {
	form := factsForm(false)
	raw := json.RawMessage(`{"action_type":"say","message":"hello","facts":[{"what":"refund_amount","value":"$59.40"},` +
		`{"what":"team","value":"finance"},{"what":"answer_by","value":"2 business days"}]}`)
	for b.Loop() {
		if _, err := form.Decode(raw); err != nil {
			b.Fatal(err)
		}
	}
}
