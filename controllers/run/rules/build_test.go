package rules

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/csenv/csenv/controllers/run/observe"
	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/envserver/score"
)

// snap returns the snapshot of a run that has not begun.
func snap() observe.Snapshot {
	report := runtest.NewReport()
	return observe.Snapshot{Run: runtest.NewRun(), Env: runtest.NewPool(), Report: &report, Version: runtest.OperatorVersion, Now: runtest.StartTime()}
}

// begun returns the snapshot of a run whose plan and Job exist.
func begun(t testing.TB) (observe.Snapshot, score.Plan) {
	t.Helper()
	s := snap()
	d := DecideRun(s)
	if d.CreatePlan == nil {
		t.Fatalf("the run doesn't begin: %+v", d.Status.Conditions)
	}
	planMap, err := runner.MakePlanMap(s.Run, *d.CreatePlan)
	if err != nil {
		t.Fatal(err)
	}
	s.Run.Status = d.Status
	s.PlanMap, s.Job, s.Report = planMap, jobOf(s, *d.CreateJob), nil
	return s, *d.CreatePlan
}

// jobOf makes a Job of the snapshot's run.
func jobOf(s observe.Snapshot, spec runner.JobSpec) *batchv1.Job {
	return runner.MakeJob(s.Run, s.Env, runner.Options{Image: runtest.OperatorImage}, spec)
}
