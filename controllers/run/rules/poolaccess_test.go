package rules

import (
	"testing"

	"github.com/csenv/csenv/controllers/run/runtest"
)

func TestPoolThatAdmitsNoLonger(t *testing.T) {
	s, _ := begun(t)
	s.Run.Spec.EnvironmentRef.Namespace = "shared"
	s.Env, s.Revoked = nil, true
	d := DecideRun(s)
	if got, want := runtest.FormatConditions(d.Status.Conditions), "EnvironmentReady=False/NamespaceNotAllowed "+
		"Complete=False/NamespaceNotAllowed Failed=True/NamespaceNotAllowed"; got != want || jobDecision(d) != "suspend" {
		t.Errorf("conditions %s, job %q", got, jobDecision(d))
	}
}
