package grader

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/tasks"
)

// DescribeTrust says what scores on a judge's scale rest on, in the same words everywhere. It is ""
// if the agent tells the customer nothing in any of the tasks.
func DescribeTrust(scale string, names []string) string {
	if !slices.ContainsFunc(names, func(name string) bool {
		task, _ := tasks.Find(name)
		return task.Replies || task.Environment == tasks.Workflow
	}) {
		return ""
	}
	model, judged := strings.CutPrefix(scale, "llm:")
	if !judged {
		return "Facts compared exactly; the letter not judged."
	}
	model, _, mixed := strings.Cut(model, "+")
	if mixed {
		return "Letter judged by " + model + "; where it failed, facts compared exactly."
	}
	return "Letter judged by " + model + "."
}
