package player

import (
	"encoding/json"
	"testing"
)

// FuzzMCPAction checks that any data of a step is classified without a panic, and that a tool's
// name is not empty by accident.
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
