package player

import (
	"encoding/json"
	"testing"
)

// Whatever the data of a step is, it is told apart without a panic, and a tool's name is never
// empty by accident.
func FuzzMCPAction(f *testing.F) {
	for _, seed := range []string{`{"type":"list_tools"}`, `{"tool_name":"x"}`,
		`{"type":"call_tool","tool_name":"x","arguments":{"a":1}}`, `{"type":7,"tool_name":"x"}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, ok := readMCPAction(data)
		if ok && a.err == nil && a.tool != "" && len(a.arguments) > 0 && !json.Valid(a.arguments) {
			t.Errorf("%q has the arguments %q", data, a.arguments)
		}
	})
}
