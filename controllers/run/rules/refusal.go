package rules

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/tally"
)

// minRefusedRetry and maxRefusedRetry bound the time until a refused object is created again, which
// is a tenth of the time that has passed since the run began.
const (
	MinRefusedRetry = 5 * time.Second
	maxRefusedRetry = 2 * time.Minute
)

// ReportRefusal is the decision of a pass of which the API server has refused an object: it writes
// the status alone.
func ReportRefusal(s observe.Snapshot, next Decision, object string, refusal error) Decision {
	words := pods.Quote(strings.TrimSuffix(refusal.Error(), "."))
	d := Decision{Status: *next.Status.DeepCopy(), Tally: tally.Result{Sums: next.Tally.Sums}}
	o := evaluation.Outcome{State: evaluation.Running, Reason: v1alpha1.ReasonJobRefused, Message: fmt.Sprintf(
		"%s The API server refuses %s: %s. Correct that to continue.",
		describeProgress(next.Status, next.Tally.Completed, tally.ReadGoal(s.Run)), object, words)}
	last := meta.FindStatusCondition(s.Run.Status.Conditions, v1alpha1.ConditionComplete)
	if last == nil || last.Reason != o.Reason || last.Message != pods.Shorten(o.Message, pods.MaxNote) {
		d.announce(corev1.EventTypeWarning, o.Reason, o.Message)
	}
	for _, c := range evaluation.Conditions(s.Run, d.Status, next.Tally.Sums, o) {
		d.setCondition(c, s.Run.Generation, s.Now)
	}
	began := ptr.Deref(s.Run.Status.StartTime, metav1.NewTime(s.Now))
	d.Again = min(max(s.Now.Sub(began.Time)/10, MinRefusedRetry), maxRefusedRetry)
	return d
}
