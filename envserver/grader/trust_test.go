package grader_test

import (
	"strings"
	"testing"

	"github.com/csenv/csenv/envserver/grader"
)

func TestTrust(t *testing.T) {
	for name, tc := range map[string]struct {
		scale string
		tasks []string
		want  string
	}{
		"facts":         {"facts-v1", []string{"ticket-classify", "ticket-resolve"}, "letter not judged"},
		"a queue":       {"facts-v1", []string{"queue-management"}, "letter not judged"},
		"a model":       {"llm:m@r3", []string{"ticket-resolve"}, "Letter judged by m@r3."},
		"a mixed scale": {"llm:m@r4+facts-v1", []string{"ticket-resolve"}, "where it failed"},
		"no replies":    {"facts-v1", []string{"ticket-classify"}, ""},
		"workflows":     {"rules", []string{"case-easy"}, "letter not judged"},
	} {
		if got := grader.DescribeTrust(tc.scale, tc.tasks); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
