package grader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/facts"
)

// Judge grades the reply to a ticket. Implementations are safe for concurrent use.
type Judge interface {
	// Name is the scale of the verdicts, for example "facts-v1". Scores of different scales are
	// never averaged.
	Name() string
	// Judge grades one reply. If it can't, it returns an error and a verdict with StatusError: a
	// failure to judge is never a score.
	Judge(ctx context.Context, c Case) (Verdict, error)
}

// Case is the input of a judge. It never contains the agent's name, other scores or reasoning.
type Case struct {
	// Ticket or Workflow is what the reply is about.
	Ticket   *scenarios.Ticket
	Workflow *scenarios.Workflow
	// Reply is the agent's messages to the customer, joined by blank lines. It is untrusted.
	Reply string
	// Stated are the facts beside the messages, for each name as the last message that states it
	// has them. They are untrusted, but their names are of the vocabulary.
	Stated []facts.Fact
	// Actions come from the environment's state, never from the reply.
	Actions Actions
	// Done are the agent's changes in a workflow with their results, in order. They are untrusted.
	Done []string
}

// Digest identifies the case within its episode: 16 hex digits of SHA-256 over the scenario, the
// reply, the actions and the facts stated.
func (c Case) Digest() string {
	h := sha256.New()
	scenario := ""
	if c.Workflow != nil {
		scenario = c.Workflow.ScenarioID
	} else {
		scenario = c.Ticket.ScenarioID
	}
	parts := append([]string{scenario, c.Reply, string(c.Actions.Ending), c.Actions.Team}, c.Done...)
	for _, f := range c.Stated {
		parts = append(parts, f.What, f.Value)
	}
	for _, part := range parts {
		// The length prevents two lists of parts from having the same bytes.
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// Actions are the agent's actions that a reply can state correctly or incorrectly.
type Actions struct {
	Ending Ending
	Team   string
}

// Status is the origin of a verdict.
type Status string

const (
	// StatusOK is a new verdict. The zero Status is no verdict.
	StatusOK Status = "ok"
	// StatusCached is an earlier verdict on the same case.
	StatusCached Status = "ok_cached"
	// StatusFallback is a verdict of the offline judge in place of a model's, if configured.
	StatusFallback Status = "fallback_offline"
	// StatusError is a failure to judge. Its points have no meaning.
	StatusError Status = "error"
)

// Verdict is a judge's grading of one reply, in milli-points.
type Verdict struct {
	Judge string `json:"judge"`
	// Case is the digest of the judged case, set if the verdict is stored.
	Case   string `json:"case,omitempty"`
	Status Status `json:"status"`
	// Criteria are the criteria of the judge's rubric, in its order.
	Criteria []Criterion `json:"criteria"`
	// Harm contains a model's answers to the claims about harm. An accepted answer of met has a
	// gate.
	Harm []Evidence `json:"harm,omitempty"`
	// Letter is a model's answer to whether the reply is a letter that may be sent. An answer of
	// unmet has a gate. It is nil without a model.
	Letter *Evidence `json:"letter,omitempty"`
	// Gates are the gates that the reply tripped, in the order in which they are checked.
	Gates []Gate `json:"gates,omitempty"`
	// PreGate is the sum of the criteria.
	PreGate int64 `json:"preGate"`
	// PostGate is the points of the reply, 0 to 500: PreGate, at most the lowest cap of the tripped
	// gates.
	PostGate int64 `json:"postGate"`
	// Right is set if every required fact is told, nothing that is told is wrong, and no gate is
	// tripped.
	Right bool `json:"right"`
	// Usage is the judge's usage, without the agent's.
	Usage Usage `json:"usage,omitzero"`
	// Cause is the class of the failure. It is set only with StatusError and StatusFallback.
	Cause Cause `json:"cause,omitempty"`
}

// Usage counts the resources used for a verdict.
type Usage struct {
	// Calls counts requests to a model, including retries.
	Calls            int64 `json:"calls,omitempty"`
	PromptTokens     int64 `json:"promptTokens,omitempty"`
	CompletionTokens int64 `json:"completionTokens,omitempty"`
	Retries          int64 `json:"retries,omitempty"`
	// CacheHits counts answers from the cache, which cost nothing.
	CacheHits int64 `json:"cacheHits,omitempty"`
}

// Add adds another usage.
func (u *Usage) Add(other Usage) {
	u.Calls += other.Calls
	u.PromptTokens += other.PromptTokens
	u.CompletionTokens += other.CompletionTokens
	u.Retries += other.Retries
	u.CacheHits += other.CacheHits
}

// Cause is the class of a failure to judge.
type Cause string

const (
	// CauseFailed means that the judge was refused, could not decide, or revealed its instructions.
	CauseFailed Cause = score.ClassJudgeFailed
	// CauseUnparsable means that the judge's answer is not a verdict.
	CauseUnparsable Cause = score.ClassJudgeUnparsable
	// CauseTimeout means that the time for a judgement ran out.
	CauseTimeout Cause = score.ClassJudgeTimeout
	// CauseUnavailable means that the judge can't be reached or is overloaded.
	CauseUnavailable Cause = score.ClassJudgeUnavailable
)

// Criterion is the earned and the maximum points of one criterion.
type Criterion struct {
	// ID names the criterion in words, as "next step".
	ID string `json:"id"`
	// Step is the number of the action for which points were deducted, and Action its type. Other
	// criteria have neither.
	Step    int    `json:"step,omitempty"`
	Action  string `json:"action,omitempty"`
	Earned  int64  `json:"earned"`
	Offered int64  `json:"offered"`
	// Reason states what is missing.
	Reason string `json:"reason,omitempty"`
	// Evidence contains a model's answers to the claims of the criterion.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// The verdicts on a claim.
const (
	Met   = "met"
	Unmet = "unmet"
)

// Claim identifies a statement about a reply that a model decides.
type Claim struct {
	// Kind is the id of a criterion or of a kind of harm, or "letter".
	Kind string `json:"claim"`
	// About is the id of the scenario's fact or question that the statement is about, "" if it is
	// about the whole reply.
	About string `json:"about,omitempty"`
}

// Evidence is a judge's answer to a claim.
type Evidence struct {
	Claim
	Verdict string `json:"verdict"`
	// Quote contains the words of the reply on which the verdict rests. A claim isn't met without
	// them.
	Quote  string `json:"quote,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Refused is the reason why code rejects a verdict of met, or "".
	Refused string `json:"refused,omitempty"`
}

// Gate is a condition that caps the points of a reply.
type Gate struct {
	ID  string `json:"id"`
	Cap int64  `json:"cap"`
	// Reason completes "the reply …".
	Reason string `json:"reason"`
	// Quote contains the words of the reply on which the gate rests, "" if it rests on all of it.
	Quote string `json:"quote,omitempty"`
}

// Bounded is a judge whose judgements take at most a time, all judgements of a step together, so
// that no client waits longer.
type Bounded interface {
	// Timeout is that time, 0 for no bound.
	Timeout() time.Duration
}

// GateUnread is the id of the gate on a reply that alone makes its judgement by a model fail.
const GateUnread = "unread"

// Unread reports whether the reply alone made its judgement by a model fail.
func (v Verdict) Unread() bool {
	return slices.ContainsFunc(v.Gates, func(g Gate) bool { return g.ID == GateUnread })
}

// Scored reports whether the verdict's points count.
func (v Verdict) Scored() bool {
	return v.Status == StatusOK || v.Status == StatusCached || v.Status == StatusFallback
}

// Told is what a message and the facts stated beside it tell a customer.
type Told struct {
	Facts facts.Result
	// Gates are the reasons why the message may not be sent.
	Gates []Gate
}

// IsRight reports whether every required fact is told, none is wrong, and the message may be sent.
func (t *Told) IsRight() bool { return t.Facts.IsRight() && len(t.Gates) == 0 }

// Points returns the points of the facts, capped by the gates.
func (t *Told) Points(offered int64) int64 {
	points := t.Facts.Points(offered)
	for _, g := range t.Gates {
		points = min(points, offered*g.Cap/ResponsePoints)
	}
	return points
}
