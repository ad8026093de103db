package endpoint

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// What isn't JSON is read as what its language means.
func TestLooseJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{'order_id': 'A1', 'x': None, 'y': True, 'z': False}`: `{"order_id":"A1","x":null,"y":true,"z":false}`,
		`{'a': "it's", 'b': 'say "hi"', 'c': 'it\'s'}`:         `{"a":"it's","b":"say \"hi\"","c":"it's"}`,
		`{'a': 'one\ntwo', 'b': '\x41\u00e9\\', 'c': 'a\d'}`:   `{"a":"one\ntwo","b":"Aé\\","c":"ad"}`,
		`{'a': (1, 2.5, -3e4), 'b': [], 'c': ('x',)}`:          `{"a":[1,2.5,-3e4],"b":[],"c":["x"]}`,
		"{\"a\": \"one\ntwo\", \"b\": \"\\ud83d\\ude00\"}":     `{"a":"one\ntwo","b":"😀"}`,
		`{"a": 1, "b": [1, 2, ], }`:                            `{"a":1,"b":[1,2]}`,
		`{a: 'x', b_2: undefined, c: NaN, d: -Infinity}`:       `{"a":"x","b_2":null,"c":null,"d":null}`,
		`{'None': 'True', 'of': 'None, True'}`:                 `{"None":"True","of":"None, True"}`,
		`{'ü': 'ß ◁', "é": '😀'}`:                               `{"ü":"ß ◁","é":"😀"}`,
		`{'a': 1`:                                              ``,
		`{'a': 'b}`:                                            ``,
		`{'a': 'it's'}`:                                        ``,
		`{'a': spam(1)}`:                                       ``,
		`{"a": 1} {"b": 2}`:                                    `{"a":1}`,
		`{'a': 1} and so on`:                                   `{"a":1}`,
	} {
		var got, wanted any
		written, n := LooseJSON(text)
		read := json.Unmarshal([]byte(written), &got) == nil && n > 0
		if want == "" {
			if read {
				t.Errorf("%s is read as %s", text, written)
			}
			continue
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(wanted)
		if string(a) != string(b) {
			t.Errorf("%s: %s, want %s", text, a, b)
		}
	}
}

// No text makes it fail, and an object of JSON stays what it is.
func TestLooseJSONOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[\[\]{}(),:'"\\a-zA-Z0-9 \n-]*`).Draw(t, "text")
		if written, n := LooseJSON(text); n < 0 || n > len(text) || n == 0 && written != "" {
			t.Errorf("%q: %q, %d", text, written, n)
		}
		data, err := json.Marshal(map[string]any{"a": text, text: []any{rapid.Float64().Draw(t, "n"), nil, true}})
		if err != nil {
			t.Skip()
		}
		var before, after any
		written, n := LooseJSON(string(data))
		if json.Unmarshal(data, &before) != nil || json.Unmarshal([]byte(written), &after) != nil || n != len(data) {
			t.Fatalf("%s is read as %s", data, written)
		}
		again, _ := json.Marshal(after)
		if first, _ := json.Marshal(before); string(again) != string(first) {
			t.Errorf("%s is read as %s", first, again)
		}
	})
}
