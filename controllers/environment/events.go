package environment

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

// announcer emits the events of pools.
type announcer struct{ recorder events.EventRecorder }

func (a announcer) emit(env *v1alpha1.CustomerSupportEnv, kind, reason, format string, args ...any) {
	a.recorder.Eventf(env, nil, kind, reason, "Reconcile", format, args...)
}

// announceScaling says that the number of servers was changed.
func (a announcer) announceScaling(env *v1alpha1.CustomerSupportEnv, s rules.Scaling) {
	reason := v1alpha1.ReasonScaledUp
	if s.Direction() == "down" {
		reason = v1alpha1.ReasonScaledDown
	}
	a.emit(env, corev1.EventTypeNormal, reason, "Scaled %s from %d to %d servers: %s.", s.Direction(), s.From, s.To,
		s.Why)
}

// announcePacks says that a rolling update for changed packs was applied.
func (a announcer) announcePacks(env *v1alpha1.CustomerSupportEnv, scenarios string) {
	a.emit(env, corev1.EventTypeNormal, v1alpha1.ReasonPacksChanged,
		"The scenario packs have changed. Servers are replaced to load %s.", scenarios)
}

// announceConditions says which conditions have changed.
func (a announcer) announceConditions(env *v1alpha1.CustomerSupportEnv, after []metav1.Condition) {
	for _, c := range listTransitions(env.Status.Conditions, after) {
		a.emit(env, rules.FindEventType(c), c.Reason, "%s", pods.ClipText(c.Message, pods.MaxNote))
	}
}

// announceTerminated says what happened to the sessions of a server that has terminated. lost are
// those that a server without a drain report had.
func (a announcer) announceTerminated(env *v1alpha1.CustomerSupportEnv, server string, report score.DrainReport,
	lost int64) {
	switch {
	case lost > 0:
		a.emit(env, corev1.EventTypeWarning, v1alpha1.ReasonSessionsCut, "Server %s ended without a drain report. It "+
			"last reported %d open sessions. Check its node and its memory limit.", server, lost)
	case report.Cut > 0:
		a.emit(env, corev1.EventTypeWarning, v1alpha1.ReasonSessionsCut, "Server %s cut %d of its %d sessions after "+
			"%s. To let all sessions end, raise spec.drainTimeoutSeconds above spec.sessions.maxDurationSeconds.",
			server, report.Cut, max(report.Sessions, report.Cut), time.Duration(report.Seconds)*time.Second)
	case report.Sessions > 0:
		a.emit(env, corev1.EventTypeNormal, v1alpha1.ReasonDrained, "Server %s drained its %d sessions in %s.", server,
			report.Sessions, time.Duration(report.Seconds)*time.Second)
	}
}

// identifyScaling returns what identifies a change of the number of servers.
func identifyScaling(d rules.Decision) string {
	return fmt.Sprintf("%s to %d", d.Deployment().ResourceVersion, d.Scaling.To)
}

// listTransitions returns the conditions whose status or reason changed. A new condition that isn't
// True isn't a change.
func listTransitions(before, after []metav1.Condition) []metav1.Condition {
	var changed []metav1.Condition
	for _, now := range after {
		if now.Type == v1alpha1.ConditionReady {
			continue // repeats another condition
		}
		was := meta.FindStatusCondition(before, now.Type)
		isNews := was == nil && now.Status == metav1.ConditionTrue
		if isNews || was != nil && (was.Status != now.Status || was.Reason != now.Reason) {
			changed = append(changed, now)
		}
	}
	return changed
}
