package evaluation

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

// State is the stage that a run has reached.
type State int

// A run that has ended is either Completed or Failed. The zero value isn't a state.
const (
	Waiting State = iota + 1
	Running
	Completed
	Failed
)

// Outcome is the state of a run, with the reason and message of its conditions.
type Outcome struct {
	State   State
	Reason  string
	Message string
}

// Ended reports whether the run has completed or failed.
func (o Outcome) Ended() bool { return o.State == Completed || o.State == Failed }

// Limits are the fields of a spec that decide how a run with given figures ends, and what it has
// cost. A result store keeps them with the plan.
type Limits struct {
	MaxErroredPercent *int32               `json:"maxErroredPercent,omitempty"`
	Thresholds        []v1alpha1.Threshold `json:"thresholds,omitempty"`
	// Baseline is the name of the run to compare with, "" for none.
	Baseline string           `json:"baseline,omitempty"`
	Prices   *v1alpha1.Prices `json:"prices,omitempty"`
	// CustomerPrices are those of the customer's model.
	CustomerPrices *v1alpha1.Prices `json:"customerPrices,omitempty"`
}

// LimitsOf returns the limits of a run's spec.
func LimitsOf(run *v1alpha1.EvaluationRun) Limits {
	limits := Limits{MaxErroredPercent: run.Spec.Retries.MaxErroredPercent, Thresholds: run.Spec.Thresholds,
		Prices: run.Spec.Prices, CustomerPrices: run.Spec.CustomerPrices}
	if ref := run.Spec.BaselineRef; ref != nil {
		limits.Baseline = ref.Name
	}
	return limits
}

// AllCounted is the Why of a run that has played its plan.
const AllCounted = "Every episode is counted"

// defaultMaxErroredPercent is the default of the API's schema.
const defaultMaxErroredPercent = 5

// Counted describes the episodes that are in a run's figures.
type Counted struct {
	// Episodes is the number that retries.maxErroredPercent is a share of.
	Episodes int64
	// Complete means that no episode is missing. Reason, Completed unless set, and Why say how the
	// run came to that.
	Complete    bool
	Reason, Why string
	// Mute is the number of episodes in which no answer of the agent was an action.
	Mute int64
	// Advice is a sentence on where to find the causes of errored episodes.
	Advice string
}

// DecideOutcome reports whether a run ends with the episodes that are counted, and how. The status
// has their figures. Too many errored episodes fail a run although nothing is missing.
func DecideOutcome(run *v1alpha1.EvaluationRun, status v1alpha1.EvaluationRunStatus, c Counted) (Outcome, bool) {
	errored, limit := status.Episodes.Errored, maxErroredPercent(run)
	if TooManyErrored(run, errored, c.Episodes) {
		classes := byClass(status.Errors, func(e v1alpha1.ErrorCount) int64 { return e.Errored })
		if classes != "" {
			classes = " (" + classes + ")"
		}
		return Outcome{Failed, v1alpha1.ReasonTooManyErrored, strings.TrimSpace(fmt.Sprintf("%d of %d episodes "+
			"errored%s, more than the %d %% of retries.maxErroredPercent. %s",
			errored, c.Episodes, classes, limit, c.Advice))}, true
	}
	if !c.Complete {
		return Outcome{}, false
	}
	message := completedMessage(c.Why, status) + muteMessage(c.Mute, status)
	if trouble := DescribeAnswers(status); trouble != "" {
		message += " " + trouble
	}
	return Outcome{Completed, cmp.Or(c.Reason, v1alpha1.ReasonCompleted), message}, true
}

// TooManyErrored reports whether more episodes of a plan errored than retries.maxErroredPercent
// allows.
func TooManyErrored(run *v1alpha1.EvaluationRun, errored, planned int64) bool {
	return errored*100 > maxErroredPercent(run)*planned
}

func maxErroredPercent(run *v1alpha1.EvaluationRun) int64 {
	return int64(ptr.Deref(run.Spec.Retries.MaxErroredPercent, defaultMaxErroredPercent))
}

// DeadlineExceeded is the outcome of a run that was not complete within activeDeadlineSeconds. The
// details are how far it is and how it can go on.
func DeadlineExceeded(run *v1alpha1.EvaluationRun, details string) Outcome {
	return Outcome{Failed, v1alpha1.ReasonDeadlineExceeded,
		fmt.Sprintf("The run was not complete within %d seconds (activeDeadlineSeconds). %s",
			*run.Spec.ActiveDeadlineSeconds, details)}
}

// completedMessage contains why the run is complete, and its score.
func completedMessage(why string, status v1alpha1.EvaluationRunStatus) string {
	e := status.Episodes
	all := e.Scored + e.Failed + e.Errored
	if status.Score == nil {
		return fmt.Sprintf("%s: all of %s errored.", why, FormatCount(all, "episode"))
	}
	message := fmt.Sprintf(
		"%s: %s, mean score %s, pass rate %s; %d failed because of the agent, %d errored (excluded).",
		why, FormatCount(all, "episode"), MeanScore(status), status.PassRate, e.Failed, e.Errored)
	if retried := byClass(status.Errors, func(e v1alpha1.ErrorCount) int64 { return e.Retried }); retried != "" {
		message += fmt.Sprintf(" Retried attempts: %s.", retried)
	}
	return message
}

// MostlyMute reports whether no answer of the agent was an action in most of the episodes that have
// a score, and the number of those.
func MostlyMute(mute int64, e *v1alpha1.RunEpisodes) (graded int64, mostly bool) {
	graded = e.Scored + e.Failed
	return graded, 2*mute > graded
}

// muteMessage warns of a run whose agent did nothing in most episodes: it may be the endpoint
// that loses its calls.
func muteMessage(mute int64, status v1alpha1.EvaluationRunStatus) string {
	graded, mostly := MostlyMute(mute, status.Episodes)
	if !mostly {
		return ""
	}
	return fmt.Sprintf(" No answer was an action in %d of %s: look at one with csenv transcript. The endpoint may not "+
		"read the model's calls, or cut its answers off (maxTokens).", mute, FormatCount(graded, "episode"))
}

// notableShare is the share of answers without an action, in percent, from which they are worth a
// word.
const notableShare = 5

// DescribeAnswers says how many replies a model could not judge, and what share of the agent's
// answers contained no action; "" if that is nothing or little.
func DescribeAnswers(status v1alpha1.EvaluationRunStatus) string {
	var parts []string
	if r := status.Replies; r != nil && r.NotJudged > 0 {
		parts = append(parts, fmt.Sprintf("%s not judged (errored, without a score).", countReplies(r.NotJudged)))
	}
	if r := status.Replies; r != nil && r.Provoking > 0 {
		parts = append(parts, fmt.Sprintf("%s judged as provoking the failure of the judge (graded by their facts, "+
			"at most 0.15).", countReplies(r.Provoking)))
	}
	if a := status.Answers; a != nil && a.NoAction*100 >= notableShare*a.Total && a.NoAction > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d answers of the agent (%s %%) were no action.", a.NoAction, a.Total,
			a.NoActionPercent))
	}
	return strings.Join(parts, " ")
}

func countReplies(n int64) string {
	if n == 1 {
		return "1 reply was"
	}
	return fmt.Sprintf("%d replies were", n)
}

// NothingPlayed reports whether no answer of the agent was an action.
func NothingPlayed(status v1alpha1.EvaluationRunStatus) bool {
	a := status.Answers
	return a != nil && a.Total > 0 && a.NoAction == a.Total
}

// byClass lists the classes of errors that occurred, with their numbers.
func byClass(counts []v1alpha1.ErrorCount, of func(v1alpha1.ErrorCount) int64) string {
	var classes []string
	for _, e := range counts {
		if n := of(e); n > 0 {
			classes = append(classes, fmt.Sprintf("%s %d", e.Class, n))
		}
	}
	return strings.Join(classes, ", ")
}

// MeanScore is the mean score with its interval, for messages.
func MeanScore(status v1alpha1.EvaluationRunStatus) string {
	switch score := status.Score; {
	case score == nil:
		return "not known"
	case score.CI95 == nil:
		return score.Mean
	default:
		return fmt.Sprintf("%s (95 %% interval %s to %s)", score.Mean, score.CI95.Low, score.CI95.High)
	}
}

// FormatCount is a number of things, "1 shard" or "4 shards".
func FormatCount(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// maxTimeLeft bounds an estimate: a time that is further away can't be estimated.
const maxTimeLeft = 365 * 24 * time.Hour

// TimeLeft estimates how long the remaining episodes take at the pace of those that have ended,
// false before any has.
func TimeLeft(elapsed time.Duration, ended, total int64) (time.Duration, bool) {
	if ended == 0 {
		return 0, false
	}
	left := float64(elapsed) / float64(ended) * float64(total-ended)
	return time.Duration(left), left <= float64(maxTimeLeft)
}

// NewCondition is a condition without a time.
func NewCondition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}
