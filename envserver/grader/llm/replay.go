package llm

import (
	"context"
	"fmt"

	"github.com/csenv/csenv/envserver/grader"
)

// Replay grades a reply from a verdict that was kept, without a model: the rules read the reply again, the verdict's evidence answers the claims, and today's
// points, caps and gates add them up. It so tells what an episode of old would earn now.
type Replay struct {
	rules *grader.Offline
	kept  grader.Verdict
}

var _ grader.Judge = (*Replay)(nil)

// NewReplay makes a judge of the one reply that the verdict was on. The verdict is as package grader writes it in JSON.
func NewReplay(rules *grader.Offline, kept grader.Verdict) *Replay { return &Replay{rules, kept} }

// Name is the scale of the verdict.
func (r *Replay) Name() string { return r.kept.Judge }

// Judge grades the reply. It fails when the verdict isn't a score, or doesn't answer what today's rules leave open.
func (r *Replay) Judge(_ context.Context, c grader.Case) (grader.Verdict, error) {
	failed := grader.Verdict{Judge: r.kept.Judge, Status: grader.StatusError, Cause: grader.CauseFailed}
	if !r.kept.Scored() || r.kept.Status == grader.StatusFallback {
		return failed, fmt.Errorf("replaying a verdict: its status is %q: judge the reply again", r.kept.Status)
	}
	reading, err := r.rules.Read(c)
	if err != nil {
		return failed, err
	}
	v, err := reading.Grade(r.kept.Judge, r.answers(reading))
	if err != nil {
		return failed, fmt.Errorf("replaying a verdict: %w: judge the reply again", err)
	}
	v.Status = grader.StatusCached
	return v, nil
}

// answers are those that are asked for today.
func (r *Replay) answers(reading *grader.Reading) []grader.Evidence {
	wanted := map[string]bool{}
	for _, c := range reading.Claims() {
		wanted[c.ID] = true
	}
	var out []grader.Evidence
	for _, c := range r.kept.Criteria {
		for _, e := range c.Evidence {
			if wanted[e.Claim] {
				out = append(out, e)
			}
		}
	}
	return out
}
