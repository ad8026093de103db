package rules

import (
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/run/tally"
	"github.com/csenv/csenv/envserver/score"
)

// Facts are what the rules are asked about: what the pass has read, and what it has counted so far.
type Facts struct {
	Run      *v1alpha1.EvaluationRun // as it was read
	Pool     PoolFacts
	Start    StartFacts
	Plan     PlanFacts
	Counts   CountFacts
	Deadline DeadlineFacts
	Job      JobFacts
	Servers  ServerFacts
	asked    Stage
}

// PoolFacts are about the run's pool.
type PoolFacts struct {
	Name     string // "" if there is no pool
	Waits    bool   // it isn't as runs need it, for which Message is the reason
	Message  string
	Ungraded bool   // its judge can't grade
	Revoked  bool   // it no longer admits the run's namespace
	RunsOnly bool   // it refuses trainers
	Change   string // what it grades differently from when the run began
}

// StartFacts are about startDeadlineSeconds.
type StartFacts struct {
	Limited bool
	Left    time.Duration
}

// PlanFacts are about the plan.
type PlanFacts struct {
	Forbidden error // what the spec refers to may not be read by its author
	Invalid   error // there is no plan for the spec
	Missing   error // the plan in the ConfigMap can't be used, or made again
}

// CountFacts are about the figures.
type CountFacts struct {
	Newer, Edited error              // why the figures in the status can't be added to
	TooLarge      error              // the sums can't be stored
	Progress      string             // for messages
	Shards        int64              // that are counted
	Verdict       evaluation.Outcome // on the figures, if they end the run
	Refused       *tally.Refusal     // of the present job attempt
	OverBudget    string
}

// DeadlineFacts are about activeDeadlineSeconds.
type DeadlineFacts struct {
	Over    bool               // and servers that don't reply aren't waited for
	Verdict evaluation.Outcome // on an External run's figures
}

// JobFacts are about the Job and its pods.
type JobFacts struct {
	Taken         string // objects of others with names that the run needs
	Pods          int
	Refusal       string         // the message that the API server refuses an object, which is tried again
	PodRefusal    string         // why it refuses the pods
	FailureReason string         // if the Job has failed
	Failure       string         // how
	Trouble       string         // why a runner can't start
	Stuck         bool           // it couldn't for stuckDeadline
	Incomplete    bool           // the Job is complete, and the shards Unplayed are missing for good
	Unplayed      score.IndexSet // shards that aren't counted
	MayPlayAgain  bool
	Held          bool // by Queue
	Queue         string
	Unscheduled   string
	Sidecar       string // that keeps a pod
	WaitReason    string // why runners play nothing
	Wait          string
}

// ServerFacts are about the segments of the pool's servers.
type ServerFacts struct {
	Tag      string
	Ended    int64 // episodes that are collected
	Refused  *tally.Refusal
	Refusing *tally.Reply
}

// Stage is a set of stages of a pass. The rules of a stage are asked after its steps.
type Stage uint

// The stages of passes.
const (
	Reading    Stage = 1 << iota // what has been read
	Beginning                    // a run that has not begun
	Planned                      // its plan has been made
	Counted                      // the summaries of a Job's runners are in the figures
	Playing                      // the Job is as it should be
	Collected                    // the segments of trainers' episodes are in the figures
	Collecting                   // more of them are requested
)
