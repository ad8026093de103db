package evaluation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// Replies that were not judged and answers that were no action are in the status, which keeps them
// from pass to pass, and in messages; few such answers are no word worth.
func TestAnswersInTheStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		counts  score.Counts
		errored map[string]int64
		answers *v1alpha1.RunAnswers
		replies *v1alpha1.RunReplies
		want    string
		nothing bool
	}{
		"nothing": {},
		"a customer's": {counts: score.Counts{Customer: score.CustomerCounts{Answers: 9, Replaced: 2, Refused: 7, Dropped: 1,
			Failed: 1, Tokens: score.Tokens{Prompt: 50, Completion: 4}}}},
		"few": {counts: score.Counts{Answers: 100, NoAction: 4}, answers: &v1alpha1.RunAnswers{Total: 100, NoAction: 4, NoActionPercent: "4.0"}},
		"some": {counts: score.Counts{Answers: 40, NoAction: 2}, answers: &v1alpha1.RunAnswers{Total: 40, NoAction: 2, NoActionPercent: "5.0"},
			want: "2 of 40 answers of the agent (5.0 %) were no action."},
		"all": {counts: score.Counts{Answers: 5, NoAction: 5}, answers: &v1alpha1.RunAnswers{Total: 5, NoAction: 5, NoActionPercent: "100.0"},
			want: "5 of 5 answers of the agent (100.0 %) were no action.", nothing: true},
		"replies": {counts: score.Counts{Answers: 9, Unread: 1}, errored: map[string]int64{"judge_failed": 2, "timeout": 1,
			"judge_unavailable": 1}, answers: &v1alpha1.RunAnswers{Total: 9, NoActionPercent: "0.0"},
			replies: &v1alpha1.RunReplies{NotJudged: 3, Provoking: 1},
			want: "3 replies were not judged (errored, without a score). 1 reply was judged as provoking the failure of the " +
				"judge (graded by their facts, at most 0.15)."},
	} {
		f := score.Figures{Counts: tc.counts}
		for class, n := range tc.errored {
			f.Errors = append(f.Errors, score.ErrorFigures{Class: class, Errored: n})
		}
		status := v1alpha1.EvaluationRunStatus{Episodes: &v1alpha1.RunEpisodes{}}
		WriteTotals(&status, f)
		WriteCosts(&status, &v1alpha1.EvaluationRunSpec{CustomerPrices: &v1alpha1.Prices{Input: "2000", Output: "0"}})
		if c := status.Customer; c != nil && (c.Cost != "0.1000" || status.Cost != "") {
			t.Errorf("%s: the customer costs %q, the agent %q", name, c.Cost, status.Cost)
		}
		if diff := cmp.Diff(tc.answers, status.Answers) + cmp.Diff(tc.replies, status.Replies); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got := ReadCounts(&status); got != tc.counts {
			t.Errorf("%s: read %+v, want %+v", name, got, tc.counts)
		}
		if got := DescribeAnswers(status); got != tc.want || NothingPlayed(status) != tc.nothing {
			t.Errorf("%s: %q, want %q; nothing was played: %v", name, got, tc.want, NothingPlayed(status))
		}
	}
}
