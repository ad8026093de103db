package episode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/testkit"
)

// toolForm returns a form with a variant of every shape that becomes a tool.
func toolForm() *episode.Form {
	return episode.NewForm("Test", []episode.Field{
		{Name: "colour", Description: "A colour.", Enum: []string{"red", "green"}},
		{Name: "text", Description: "A text.", MaxLength: 5},
		{Name: "payload", Description: "Details.", Properties: []episode.Field{
			{Name: "id", MaxLength: 4, Description: "An id."}, {Name: "amount", MaxLength: 6, Number: true},
			{Name: "other", MaxLength: 3},
		}},
	}, []episode.Variant{
		{Type: "paint", Description: "paints.", Optional: []string{"colour", "text"},
			AnyOf: []string{"colour", "text"}},
		{Type: "say", Description: "speaks.", Required: []string{"text"}, Optional: []string{"colour"}},
		{Type: "pay", Description: "pays.", Optional: []string{"payload"}, Properties: []string{"id", "amount"}},
		{Type: "stop", Description: "stops."},
	})
}

func tools(tb testing.TB) map[string]episode.Tool {
	tb.Helper()
	list, err := toolForm().Tools()
	if err != nil {
		tb.Fatal(err)
	}
	byName := map[string]episode.Tool{}
	for _, tool := range list {
		byName[tool.Name] = tool
	}
	return byName
}

func TestToolsDescribeTheirArguments(t *testing.T) {
	for name, want := range map[string]string{
		"say": `{"additionalProperties":false,"properties":{"colour":{"anyOf":[{"enum":["red","green"],` +
			`"type":"string"},{"type":"null"}],"default":null,"description":"A colour."},` +
			`"text":{"description":"A text.","maxLength":5,"minLength":1,"type":"string"}},"required":["text"],` +
			`"type":"object"}`,
		"pay": `{"additionalProperties":false,"properties":{"amount":{"anyOf":[{"type":"number"},{"maxLength":6,` +
			`"minLength":1,"type":"string"},{"type":"null"}],"default":null,"description":""},` +
			`"id":{"anyOf":[{"maxLength":4,"minLength":1,"type":"string"},{"type":"null"}],"default":null,` +
			`"description":"An id."}},"type":"object"}`,
		"stop": `{"additionalProperties":false,"properties":{},"type":"object"}`,
	} {
		if diff := cmp.Diff(want, string(tools(t)[name].InputSchema)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if got := tools(t)["say"].Description; got != "Speaks." {
		t.Errorf("description %q", got)
	}
}

func TestToolAction(t *testing.T) {
	for name, c := range map[string]struct{ tool, arguments, want string }{
		"own fields": {tool: "say", arguments: `{"text":"a","colour":null}`,
			want: `{"action_type":"say","colour":null,"text":"a"}`},
		"an object field": {tool: "pay", arguments: `{"id":"a","amount":12.50}`,
			want: `{"action_type":"pay","payload":{"amount":12.50,"id":"a"}}`},
		"no arguments":    {tool: "stop", arguments: ``, want: `{"action_type":"stop"}`},
		"empty arguments": {tool: "pay", arguments: `{}`, want: `{"action_type":"pay","payload":{}}`},
		"a type inside": {tool: "pay", arguments: `{"action_type":"stop"}`,
			want: `{"action_type":"pay","payload":{"action_type":"stop"}}`},
		"twice the same": {tool: "say", arguments: `{"text":"a","text":"b"}`,
			want: `{"action_type":"say","text":"b"}`},
		"another's payload": {tool: "pay", arguments: `{"other":"x"}`,
			want: `{"action_type":"pay","payload":{"other":"x"}}`},
	} {
		action, err := tools(t)[c.tool].Action(json.RawMessage(c.arguments))
		if err != nil || string(action) != c.want {
			t.Errorf("%s: %s, %v", name, action, err)
		}
	}
	for name, arguments := range map[string]string{"a list": `[1]`, "null": `null`,
		"another action": `{"action_type":"stop","text":"a"}`} {
		var invalid *episode.ActionError
		if action, err := tools(t)["say"].Action(json.RawMessage(arguments)); !errors.As(err, &invalid) {
			t.Errorf("%s: %s, %v", name, action, err)
		}
	}
}

// The decoder accepts exactly the arguments that a tool's schema accepts.
func TestToolSchemasAgreeWithTheDecoder(t *testing.T) {
	form, byName := toolForm(), tools(t)
	schemas := map[string]*jsonschema.Schema{}
	for name, tool := range byName {
		schemas[name] = testkit.CompileSchema(t, tool.InputSchema)
	}
	task, err := episode.Schemas{Tools: slices.Collect(maps.Values(byName)),
		Allowed: map[string][]string{"colours": {"paint"}}}.ActionOf("all")
	if err != nil {
		t.Fatal(err)
	}
	ofTask := testkit.CompileSchema(t, task)
	value := rapid.SampledFrom([]string{`null`, `"red"`, `"a"`, `""`, `"123456"`, `7`, `12.5`, `true`, `{}`, `[]`})
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"paint", "say", "pay", "stop"}).Draw(t, "tool")
		arguments := map[string]json.RawMessage{}
		fields := rapid.SampledFrom([]string{"colour", "text", "id", "amount", "unknown"})
		if name == "stop" { // an action may send its other fields as null, a tool call can't
			fields = rapid.Just("unknown")
		}
		for _, field := range rapid.SliceOfN(fields, 0, 3).Draw(t, "fields") {
			arguments[field] = json.RawMessage(value.Draw(t, field))
		}
		raw, err := json.Marshal(arguments)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		action, err := byName[name].Action(raw)
		if err != nil {
			t.Fatal(err)
		}
		_, decodeErr := form.Decode(action)
		if schemaErr := schemas[name].Validate(document); (schemaErr == nil) != (decodeErr == nil) {
			t.Errorf("%s%s: schema %v, decoder %v", name, raw, schemaErr, decodeErr)
		}
		whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(action))
		if err != nil {
			t.Fatal(err)
		}
		if schemaErr := ofTask.Validate(whole); (schemaErr == nil) != (decodeErr == nil) {
			t.Errorf("%s: schema of the task %v, decoder %v", action, schemaErr, decodeErr)
		}
	})
}

// The schema of a task's actions has those that the task allows, each with its own members.
func TestActionsOfATask(t *testing.T) {
	schemas := episode.Schemas{Tools: slices.Collect(maps.Values(tools(t))),
		Allowed: map[string][]string{"colours": {"paint"}}}
	raw, err := schemas.ActionOf("colours")
	if err != nil {
		t.Fatal(err)
	}
	schema := testkit.CompileSchema(t, raw)
	for action, valid := range map[string]bool{
		`{"action_type":"paint","colour":"red"}`:            true,
		`{"action_type":"paint","colour":"red","amount":7}`: false,
		`{"action_type":"stop"}`:                            false,
		`{"colour":"red"}`:                                  false,
	} {
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(action))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(document); (err == nil) != valid {
			t.Errorf("%s: %v", action, err)
		}
	}
}

// FuzzToolAction checks that the action for any arguments is an object of the tool's type, or that
// there is a fault.
func FuzzToolAction(f *testing.F) {
	for _, seed := range []string{`{}`, `{"text":"a"}`, `{"action_type":1}`, `[]`, `{"a":{"b":[1e999]}}`,
		`{"\u0061ction_type":"stop"}`, `{"ACtion_TYpe":0}`} {
		f.Add([]byte(seed), "say")
		f.Add([]byte(seed), "pay")
	}
	byName := tools(f)
	f.Fuzz(func(t *testing.T, arguments []byte, name string) {
		tool, ok := byName[name]
		if !ok {
			return
		}
		action, err := tool.Action(arguments)
		if err != nil {
			return
		}
		members, err := object.Read(action, object.Unique)
		if kind := members.Get("action_type"); err != nil || string(kind) != strconv.Quote(name) {
			t.Errorf("%s%q is %s: %v", name, arguments, action, err)
		}
	})
}
