package run

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/runtest"
)

// refuse has the API server refuse an operation as an exceeded quota does.
func refuse(operation string) func(what string, do func() error) error {
	return func(what string, do func() error) error {
		if what == operation {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "objects"}, runtest.RunName,
				errors.New("exceeded quota: requested: 1, used: 5, limited: 5"))
		}
		return do()
	}
}

// An object that the API server refuses is reported with its words, tried again, and subject to
// startDeadlineSeconds.
func TestRefusedObjects(t *testing.T) {
	for _, operation := range []string{"create *v1.Job", "create *v1.ConfigMap"} {
		t.Run(operation, func(t *testing.T) {
			run := runtest.NewRun()
			run.Spec.Agent = runtest.ListAgents()["gpt-x"] // whose prompt is too large for the Job
			w := newWorld(t, runtest.NewPool(), runtest.NewServer("support-a", "10.0.0.1"), run)
			w.fault = refuse(operation)
			result := w.mustPass()
			if c := w.complete(); c.Reason != v1alpha1.ReasonJobRefused || !strings.Contains(c.Message, "exceeded quota") {
				t.Errorf("%s: %s", c.Reason, c.Message)
			}
			if result.RequeueAfter != rules.MinRefusedRetry {
				t.Errorf("tried again after %v", result.RequeueAfter)
			}
			if diff := cmp.Diff([]string{"Warning JobRefused"}, w.events()); diff != "" {
				t.Errorf("events: %s", diff)
			}
			before := w.run().ResourceVersion
			w.wait(10 * time.Minute)
			if result := w.mustPass(); result.RequeueAfter != time.Minute || w.run().ResourceVersion != before ||
				len(w.events()) > 0 {
				t.Errorf("again: requeued after %v, events %v", result.RequeueAfter, w.events())
			}
			w.fault = nil
			w.mustPass()
			w.mustPass()
			if c := w.complete(); c.Reason != v1alpha1.ReasonRunning || w.job() == nil {
				t.Errorf("accepted: %s: %s", c.Reason, c.Message)
			}
		})
	}
}
