package grader

import (
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/tasks"
)

// RulesAgreement is Spearman's correlation of the rules with the labels of replies that the rules
// weren't tuned with, as the table in docs/judging.md has it.
const RulesAgreement = "0.78"

// DescribeTrust says what scores on a judge's scale are good for, "" if none of the tasks has
// replies that a judge grades.
func DescribeTrust(scale string, names []string) string {
	switch {
	case !slices.ContainsFunc(names, func(name string) bool {
		task, _ := tasks.Find(name)
		return task.Replies
	}):
		return ""
	case strings.Contains(scale, "offline-"):
		return "Rules grade the replies: good enough for training and smoke tests, not for ranking agents (rank " +
			"correlation with labels " + RulesAgreement + "). Rank with a model as the judge, or on tasks without " +
			"replies."
	default:
		return "A model grades replies: csenv agreement measures how well it agrees with labels."
	}
}
