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
		"rules":            {"offline-v7", []string{"ticket-classify", "ticket-resolve"}, "smoke tests"},
		"rules of a queue": {"offline-v7", []string{"queue-management"}, "smoke tests"},
		"a model":          {"llm:m@r3", []string{"ticket-resolve"}, "csenv agreement"},
		"a mixed scale":    {"llm:m@r3+offline-v7", []string{"ticket-resolve"}, "smoke tests"},
		"no replies":       {"offline-v7", []string{"ticket-classify"}, ""},
		"workflows":        {"rules", []string{"case-easy"}, ""},
	} {
		if got := grader.DescribeTrust(tc.scale, tc.tasks); !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}
