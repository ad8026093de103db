package play

import (
	"encoding/json"
	"net/url"
	"slices"
	"testing"
)

// The forms of any server's schema give actions with the types that it asks for.
func TestForms(t *testing.T) {
	const plain = `{"properties":{"n":{"type":"integer"},"amount":{"anyOf":[{"type":"number"},{"type":"string"}]},
		"ok":{"type":"boolean"},"list":{"type":"array"},"message":{"type":"string"},"any":true,"metadata":{"type":"object"}},
		"required":["n"]}`
	const typed = `{"anyOf":[{"properties":{"action_type":{"const":"a","description":"does a."},
		"payload":{"properties":{"x":{"type":"string"}}}},"required":["payload"]},
		{"properties":{"action_type":{"const":"b"},"text":{"type":"string"}},"required":["text"]}]}`
	const listed = `{"properties":{"facts":{"type":["array","null"],"maxItems":3,"items":{"type":"object","properties":{
		"value":{"type":["string","number"],"maxLength":9},"n":{"type":"number"},"what":{"enum":["team","price"],
		"description":"What.\nteam: who: a, b\nprice: how much"}},"required":["what","value"]}}}}`
	const many = `{"properties":{"asks":{"anyOf":[{"type":"array","items":{"type":"string","enum":["order","photo"]}},
		{"type":"null"}]}}}`
	for name, test := range map[string]struct {
		schema, kind string
		form         url.Values
		want         string // "" for a refusal
	}{
		"plain": {plain, "", url.Values{"f.n": {"3"}, "f.ok": {"true"}, "f.list": {`["x"]`}, "f.message": {"a\r\nb"},
			"f.metadata": {"{}"}}, `{"list":["x"],"message":"a\nb","n":3,"ok":true}`},
		"number":    {plain, "", url.Values{"f.amount": {" 12.50 "}}, `{"amount":12.50}`},
		"or text":   {plain, "", url.Values{"f.amount": {"$12"}}, `{"amount":"$12"}`},
		"no number": {plain, "", url.Values{"f.n": {"true"}}, ""},
		"no JSON":   {plain, "", url.Values{"f.list": {"x"}}, ""},
		"payload":   {typed, "a", url.Values{"f.x": {"1"}, "f.y": {"2"}, "f.text": {"3"}}, `{"action_type":"a","payload":{"x":"1"}}`},
		"own field": {typed, "b", url.Values{"f.x": {"1"}, "f.text": {"3"}}, `{"action_type":"b","text":"3"}`},
		"list": {listed, "", url.Values{"f.facts.0.what": {"team"}, "f.facts.0.value": {"it's 2\r\n"},
			"f.facts.2.value": {"7"}, "f.facts.2.what": {"price"}, "f.facts.3.what": {"price"}, "f.facts.3.value": {"out"}},
			`{"facts":[{"value":"it's 2\n","what":"team"},{"value":"7","what":"price"}]}`},
		"list empty":      {listed, "", url.Values{"f.facts.0.what": {""}, "f.facts.0.value": {" "}}, `{}`},
		"list incomplete": {listed, "", url.Values{"f.facts.1.value": {"7"}}, ""},
		"list no number":  {listed, "", url.Values{"f.facts.1.what": {"team"}, "f.facts.1.value": {"7"}, "f.facts.1.n": {"x"}}, ""},
		"many":            {many, "", url.Values{"f.asks": {"order", "photo"}}, `{"asks":["order","photo"]}`},
		"many empty":      {many, "", url.Values{"f.x": {"order"}}, `{}`},
		"empty":           {typed, "b", url.Values{"f.text": {" "}}, `{"action_type":"b"}`},
	} {
		actions, err := actionsOf(json.RawMessage(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range actions {
			if a.Type != test.kind {
				continue
			}
			got, err := a.encode(test.form)
			if (err != nil) != (test.want == "") || string(got) != test.want {
				t.Errorf("%s: %s %v, want %s", name, got, err, test.want)
			}
		}
	}
	actions, err := actionsOf(json.RawMessage(typed))
	if err != nil || len(actions) != 2 || actions[0].Description != "does a." || !actions[1].Fields[0].Required {
		t.Errorf("the actions are %+v, %v", actions, err)
	}
	actions, err = actionsOf(json.RawMessage(listed))
	if err != nil {
		t.Fatal(err)
	}
	shown := actions[0].Fields[0].show("a0-", url.Values{"f.facts.1.value": {"7"}})
	want := []detail{{"team", "who: a, b"}, {"price", "how much"}}
	if got := shown.Table[1]; len(shown.Table) != 3 || !slices.Equal(shown.Details, want) || got[0].Kind != choiceField ||
		got[0].ID != "a0-facts.1.what" || got[1].Kind != lineField || got[1].Value != "7" || got[1].Label != "facts 2: value" {
		t.Errorf("a list is shown as %+v", shown)
	}
	if _, err := actionsOf(json.RawMessage("[")); err == nil {
		t.Error("a broken schema is read")
	}
}
