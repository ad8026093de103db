package evaluate

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/figures"
)

// answers imitates an API server that answers each read of a run with the next error, or with a
// complete run for nil. The last answer is repeated.
type answers struct {
	cluster.Client
	errs []error
}

func (a *answers) Get(_ context.Context, key types.NamespacedName, object cluster.Object) error {
	err := a.errs[0]
	if len(a.errs) > 1 {
		a.errs = a.errs[1:]
	}
	run := object.(*v1alpha1.EvaluationRun)
	run.Name, run.Namespace = key.Name, key.Namespace
	run.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionComplete, Status: metav1.ConditionTrue,
		Reason: "Completed"}}
	return err
}

// resuming imitates an API server whose operator sees the next attempt after the first read.
type resuming struct {
	cluster.Client
	reads int
}

func (r *resuming) Get(_ context.Context, key types.NamespacedName, object cluster.Object) error {
	run := object.(*v1alpha1.EvaluationRun)
	run.Name, run.Namespace, run.Spec.Attempt = key.Name, key.Namespace, new(int32(2))
	ended := metav1.Condition{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "ShardsFailed"}
	if r.reads++; r.reads > 1 {
		run.Status.Attempt, ended.Type, ended.Reason = 2, v1alpha1.ConditionComplete, "Completed"
	}
	run.Status.Conditions = []metav1.Condition{ended}
	return nil
}

// The failure of the last attempt doesn't end the following of the next one.
func TestFollowingAResumedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetErr(&errs)
		c := &cluster.Connection{Client: &resuming{}, Namespace: "ns"}
		run := followRun(cmd, c, &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Name: "r",
			Namespace: "ns"}}, time.Second)
		if figures.OutcomeOf(run) != nil || strings.Contains(errs.String(), "ShardsFailed") {
			t.Errorf("%v, said %s", run.Status.Conditions, errs.String())
		}
	})
}

// A short outage of the API server doesn't end the following. The run continues in any case.
func TestFollowingThroughFaults(t *testing.T) {
	down := errors.New("connection refused")
	kind := schema.GroupResource{Resource: "evaluationruns"}
	for name, tt := range map[string]struct {
		errs     []error
		complete bool
		said     string
		silent   string
	}{
		"a moment": {[]error{down, apierrors.NewInternalError(down), nil}, true, "Completed", "stopped following"},
		"for good": {[]error{down}, false, "the run continues; follow it with: csenv run --follow r -n ns",
			"Completed"},
		"deleted":   {[]error{apierrors.NewNotFound(kind, "r")}, false, "stopped following", "the run continues"},
		"forbidden": {[]error{apierrors.NewForbidden(kind, "r", down)}, false, "the run continues", "Completed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs bytes.Buffer
				cmd := &cobra.Command{}
				cmd.SetContext(t.Context())
				cmd.SetErr(&errs)
				c := &cluster.Connection{Client: &answers{errs: tt.errs}, Namespace: "ns"}
				began := time.Now()
				run := followRun(cmd, c, &v1alpha1.EvaluationRun{ObjectMeta: metav1.ObjectMeta{Name: "r",
					Namespace: "ns"}}, time.Second)
				if got := figures.OutcomeOf(run) == nil; got != tt.complete ||
					!strings.Contains(errs.String(), tt.said) ||
					strings.Contains(errs.String(), tt.silent) {
					t.Errorf("complete: %v, said %s", got, errs.String())
				}
				if waited := time.Since(began) >= followPatience; waited != (name == "for good") {
					t.Errorf("it took %v", time.Since(began))
				}
			})
		})
	}
}
