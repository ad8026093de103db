package rules

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/csenv/csenv/controllers/run/runner"
	"github.com/csenv/csenv/controllers/run/runtest"
	"github.com/csenv/csenv/controllers/run/snapshot"
	"github.com/csenv/csenv/envserver/score"
)

// snap returns the snapshot of a run that has not begun.
func snap() snapshot.Snapshot {
	report := runtest.NewReport()
	return snapshot.Snapshot{Run: runtest.NewRun(), Env: runtest.NewPool(), Report: &report, Version: runtest.OperatorVersion, Now: runtest.StartTime()}
}

// begun returns the snapshot of a run whose plan is in a ConfigMap, as older releases stored all
// plans, and whose Job exists.
func begun(t testing.TB) (snapshot.Snapshot, score.Plan) {
	t.Helper()
	s, plan := begunInJob(t)
	s.PlanMap = runner.MakePlanMap(s.Run, runner.ReadInputs(&s.Job.Spec.Template))
	s.Job = jobOf(s, runner.JobSpec{JobAttempt: 1, Shards: runtest.AllShards(),
		Digest: runner.DigestInputs(s.PlanMap.Data)})
	return s, plan
}

// begunInJob returns the snapshot of a run whose Job contains the plan.
func begunInJob(t testing.TB) (snapshot.Snapshot, score.Plan) {
	t.Helper()
	s := snap()
	d := DecideRun(s)
	plan := plannedOf(t, d)
	s.Run.Status = d.Status
	s.Job, s.Report = jobOf(s, *d.CreateJob), nil
	return s, plan
}

// plannedOf is the plan of a run that begins.
func plannedOf(t testing.TB, d Decision) score.Plan {
	t.Helper()
	switch {
	case d.CreateJob == nil:
		t.Fatalf("the run doesn't begin: %+v", d.Status.Conditions)
	case d.CreatePlan != nil:
		return runtest.ParsePlan(t, d.CreatePlan)
	}
	return runtest.ParsePlan(t, d.CreateJob.Inputs)
}

// jobOf makes a Job of the snapshot's run.
func jobOf(s snapshot.Snapshot, spec runner.JobSpec) *batchv1.Job {
	return runner.MakeJob(s.Run, s.Env, runner.Options{Image: runtest.OperatorImage}, spec)
}
