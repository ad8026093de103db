package llm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/offline"
)

// Replay grades replies with stored verdicts instead of a model: code reads a reply again, the
// stored evidence answers the claims, and the current points, caps and gates apply.
type Replay struct {
	rules *offline.Judge
	scale string
	kept  map[string]grader.Verdict
}

var _ grader.Judge = (*Replay)(nil)

// NewReplay makes a judge for the cases of an episode's verdicts. The scale is the Judge.Name of
// their run.
func NewReplay(rules *offline.Judge, scale string, verdicts ...grader.Verdict) *Replay {
	r := &Replay{rules, scale, map[string]grader.Verdict{}}
	for _, v := range verdicts {
		r.kept[v.Case] = v
	}
	return r
}

// Name returns the scale of the verdicts' run.
func (r *Replay) Name() string { return r.scale }

// Judge grades the reply. It fails if the case has no stored verdict with a score, or one that
// doesn't answer the claims of the current rules. Verdicts of the offline judge are replaced by new
// ones.
func (r *Replay) Judge(_ context.Context, c grader.Case) (grader.Verdict, error) {
	model, standIn, mixed := cutStandIn(r.scale)
	failed := grader.Verdict{Judge: model, Status: grader.StatusError, Cause: grader.CauseFailed}
	kept, ok := r.kept[c.Digest()]
	if !ok {
		return failed, errors.New("replaying a verdict: none is stored for this reply: judge it again")
	}
	// Replies that the model refuses to read are graded by facts on the model's scale.
	fallback := kept.Status == grader.StatusFallback && (mixed && kept.Judge == standIn ||
		!mixed && kept.Judge == model && kept.Cause != "")
	if !fallback && (kept.Judge != model || !kept.Scored() || kept.Status == grader.StatusFallback) {
		return failed, fmt.Errorf("replaying a verdict: its scale is %s and its status %q: judge the reply again",
			kept.Judge, kept.Status)
	}
	a := assess(r.rules, c)
	if fallback {
		v := a.Verdict()
		if !mixed {
			v = markUnread(v, model)
		}
		v.Status, v.Cause = grader.StatusFallback, kept.Cause
		return v, nil
	}
	v, err := a.grade(model, evidenceIn(kept, a))
	if err != nil {
		return failed, fmt.Errorf("replaying a verdict: %w: judge the reply again", err)
	}
	v.Status = grader.StatusCached
	return v, nil
}

// cutStandIn splits a mixed scale into the model's scale and the scale of the judge without one,
// whose version may differ from the current one.
func cutStandIn(scale string) (model, standIn string, mixed bool) {
	for _, prefix := range []string{"+facts-", "+offline-"} {
		if at := strings.LastIndex(scale, prefix); at >= 0 {
			return scale[:at], scale[at+1:], true
		}
	}
	return scale, "", false
}

// evidenceIn returns the answers of a verdict to the current claims.
func evidenceIn(kept grader.Verdict, a *assessment) []grader.Evidence {
	wanted := map[grader.Claim]bool{}
	for _, c := range a.claims {
		wanted[c.Claim] = true
	}
	stored := slices.Clone(kept.Harm)
	if kept.Letter != nil {
		stored = append(stored, *kept.Letter)
	}
	for _, c := range kept.Criteria {
		stored = append(stored, c.Evidence...)
	}
	return slices.DeleteFunc(stored, func(e grader.Evidence) bool { return !wanted[e.Claim] })
}
