package environment

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/rules"
	"github.com/csenv/csenv/controllers/pods"
)

func TestOnlyCountsDiffer(t *testing.T) {
	t.Parallel()
	base := v1alpha1.CustomerSupportEnvStatus{
		ReadyReplicas: new(int32(2)), Sessions: &v1alpha1.SessionCounts{Active: 3, Capacity: 20},
		Episodes:   &v1alpha1.PoolEpisodes{Scored: 6},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Reason: v1alpha1.ReasonServersReady}},
	}
	tests := map[string]struct {
		edit func(*v1alpha1.CustomerSupportEnvStatus)
		want bool
	}{
		"sessions": {func(s *v1alpha1.CustomerSupportEnvStatus) { s.Sessions.Active++ }, true},
		"episodes": {func(s *v1alpha1.CustomerSupportEnvStatus) { s.Episodes.Scored++ }, true},
		"sessions, a server": {
			func(s *v1alpha1.CustomerSupportEnvStatus) { s.Sessions.Active++; *s.ReadyReplicas = 1 }, false},
		"a condition": {func(s *v1alpha1.CustomerSupportEnvStatus) { s.Conditions[0].Reason = "Other" },
			false},
		"sessions are lost":    {func(s *v1alpha1.CustomerSupportEnvStatus) { s.Sessions = nil }, false},
		"episodes are counted": {func(s *v1alpha1.CustomerSupportEnvStatus) { s.Episodes = nil }, false},
	}
	for name, tt := range tests {
		other := *base.DeepCopy()
		tt.edit(&other)
		if onlyCountsDiffer(base, other) != tt.want || onlyCountsDiffer(other, base) != tt.want {
			t.Errorf("%s: want %v", name, tt.want)
		}
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	yes, no := metav1.ConditionTrue, metav1.ConditionFalse
	degraded := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: status, Reason: reason, Message: message}
	}
	tests := map[string]struct {
		before, after []metav1.Condition
		want          string
	}{
		"true from the beginning": {nil, []metav1.Condition{degraded(yes, "CrashLoop", "why")},
			"Warning CrashLoop why"},
		"false from the beginning": {nil, []metav1.Condition{degraded(no, "Healthy", "")}, ""},
		"nothing changed": {[]metav1.Condition{degraded(yes, "CrashLoop", "why")},
			[]metav1.Condition{degraded(yes, "CrashLoop", "why")}, ""},
		"another message": {[]metav1.Condition{degraded(yes, "CrashLoop", "why")},
			[]metav1.Condition{degraded(yes, "CrashLoop", "how")}, ""},
		"another reason": {[]metav1.Condition{degraded(yes, "CrashLoop", "why")},
			[]metav1.Condition{degraded(yes, "Unschedulable", "where")}, "Warning Unschedulable where"},
		"another status": {[]metav1.Condition{degraded(yes, "CrashLoop", "why")},
			[]metav1.Condition{degraded(no, "Healthy", "well")}, "Normal Healthy well"},
		"a long message": {nil, []metav1.Condition{degraded(yes, "CrashLoop", strings.Repeat("x", 2000))},
			"Warning CrashLoop " + strings.Repeat("x", 1024)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, change := range listTransitions(tt.before, tt.after) {
				got = append(got, rules.FindEventType(change)+" "+change.Reason+" "+pods.ClipText(change.Message, pods.MaxNote))
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, "; ")); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// The log of a pass says which rules held.
func TestReconcileLogsTheRules(t *testing.T) {
	t.Parallel()
	for verbosity, want := range map[int]bool{0: false, 1: true} {
		var lines []string
		logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: verbosity})
		w := newWorld(t, pool())
		if _, err := w.reconciler.Reconcile(logf.IntoContext(t.Context(), logger),
			ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pool())}); err != nil {
			t.Fatal(err)
		}
		logs := slices.ContainsFunc(lines, func(line string) bool {
			return strings.Contains(line, `"Available"="NoServerReady" "Progressing"="RollingOut"`)
		})
		if logs != want {
			t.Errorf("verbosity %d: the rules are logged: %v, in %q", verbosity, logs, lines)
		}
	}
}
