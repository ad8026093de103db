package children

import (
	"encoding/json"
	"testing"
)

func TestHasAll(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		live, want string
		holds      bool
	}{
		"equal":                         {`{"a":1}`, `{"a":1}`, true},
		"more fields":                   {`{"a":1,"b":2}`, `{"a":1}`, true},
		"a field less":                  {`{"a":1}`, `{"a":1,"b":2}`, false},
		"another value":                 {`{"a":1}`, `{"a":2}`, false},
		"another type":                  {`{"a":"1"}`, `{"a":1}`, false},
		"not an object":                 {`{"a":[]}`, `{"a":{"b":1}}`, false},
		"not a list":                    {`{"a":{}}`, `{"a":[1]}`, false},
		"plain items in another order":  {`{"a":["x","y"]}`, `{"a":["y","x"]}`, false},
		"more plain items":              {`{"a":["x","y"]}`, `{"a":["x"]}`, false},
		"objects in another order":      {`{"a":[{"n":1},{"n":2}]}`, `{"a":[{"n":2},{"n":1}]}`, true},
		"more objects, and more in one": {`{"a":[{"n":1,"d":0},{"n":2}]}`, `{"a":[{"n":1}]}`, true},
		"an object less":                {`{"a":[{"n":1}]}`, `{"a":[{"n":2}]}`, false},
		"nothing is wanted of a list":   {`{"a":[1]}`, `{"a":[]}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := hasAll(decodeFields(json.RawMessage(tt.live)), decodeFields(json.RawMessage(tt.want))); got != tt.holds {
				t.Errorf("holds(%s, %s) = %v, want %v", tt.live, tt.want, got, tt.holds)
			}
		})
	}
}
