package ticket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// environment belongs to one session. Its state is nil before the first reset.
type environment struct {
	kind *Kind
	opts episode.Options
	// state is replaced by each step and never changed, so that forks share it.
	state *state
	// drawn are the tickets of the state, which episodes of the same scenario and seed share.
	drawn *[]*scenarios.DrawnTicket
	// recalled are verdicts by the digest of their case, for which the judge isn't called.
	recalled map[string]grader.Verdict
	// unjudged counts the judge's failures since the last verdict.
	unjudged int
}

// Reset begins an episode. If it fails, the current episode continues.
func (e *environment) Reset(opts episode.Options) (episode.Result, error) {
	if opts.RewardMode == "" {
		opts.RewardMode = episode.Terminal
	}
	choice, err := e.kind.chooseEpisode(opts)
	if err != nil {
		return episode.Result{}, err
	}
	drawn, err := e.kind.instances.Get(choice.scenario, opts.Seed, func() (*[]*scenarios.DrawnTicket, error) {
		drawn, err := scenarios.DrawTickets(choice.tickets, opts.Seed)
		return &drawn, err
	})
	if err != nil {
		return episode.Result{}, &episode.InstanceError{Scenario: choice.scenario, Seed: opts.Seed, Err: err}
	}
	return e.beginEpisode(choice, drawn, opts), nil
}

func (k *Kind) chooseEpisode(opts episode.Options) (*choice, error) {
	t, err := episode.ChooseTask(k.tasks, opts.Task, func(t *task) string { return t.Name })
	if err != nil {
		return nil, err
	}
	c := &choice{task: t, reader: k.reader, optima: &k.optima, library: &k.library, scenario: opts.Scenario}
	if c.scenario == "" {
		c.scenario = k.drawScenario(t, opts.Seed)
	}
	for _, id := range k.ticketsOf(t, c.scenario) {
		if s, ok := k.catalog.Ticket(id); ok {
			c.tickets = append(c.tickets, s)
		}
	}
	if len(c.tickets) == 0 {
		return nil, fmt.Errorf("%w %q of task %s", episode.ErrUnknownScenario, opts.Scenario, t.Name)
	}
	return c, nil
}

func (k *Kind) drawScenario(t *task, seed int64) string {
	if t.queue {
		return k.queues[episode.DrawIndex(seed, len(k.queues))].ID
	}
	tickets := k.catalog.Tickets()
	return tickets[episode.DrawIndex(seed, len(tickets))].ID
}

func (k *Kind) ticketsOf(t *task, scenario string) []string {
	if !t.queue {
		return []string{scenario}
	}
	at := slices.IndexFunc(k.queues, func(q queue.Queue) bool { return q.ID == scenario })
	if at < 0 {
		return nil
	}
	return k.queues[at].Tickets[:]
}

func (e *environment) beginEpisode(c *choice, drawn *[]*scenarios.DrawnTicket, opts episode.Options) episode.Result {
	begun := newState(c, *drawn, opts)
	e.drawn, e.opts, e.state, e.unjudged, e.recalled = drawn, opts, begun, 0, nil
	return episode.Result{Observation: begun.observation()}
}

func (e *environment) Step(ctx context.Context, action json.RawMessage) (episode.Result, error) {
	if e.state == nil {
		return episode.Result{}, episode.ErrNotReset
	}
	if e.state.outcome != "" {
		observation := e.state.observation()
		observation.Feedback = "The episode is over: send reset to begin the next one."
		return episode.Result{Observation: observation, Done: true}, nil
	}
	next := e.state.clone()
	decoded, err := actionForm.Decode(action)
	invalid, refused := errors.AsType[*episode.ActionError](err)
	switch {
	case refused:
		next.refuseAction(invalid)
		err = nil
	case err == nil:
		err = next.applyAction(decoded)
	}
	var reward int64
	var final *episode.Final
	if err == nil {
		reward, final, err = next.gradeStep(ctx, e.currentJudge())
	}
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		if e.unjudged++; e.unjudged >= episode.MaxJudgeFailures {
			final, err = next.giveUp(unjudged), nil
		}
	}
	if err != nil {
		return episode.Result{}, err
	}
	if next.countJudged() > e.state.countJudged() {
		e.unjudged = 0
	}
	e.state = next
	if refused && final == nil {
		return episode.Result{}, invalid
	}
	return episode.Result{Observation: next.observation(), Reward: reward, Done: final != nil, Final: final}, nil
}

// clone returns the state that the next action is played on. Both share the texts, which never
// change.
func (s *state) clone() *state {
	c := *s
	c.tickets = slices.Clone(s.tickets)
	c.found = nil
	return &c
}

func (s *state) giveUp(unjudged *episode.JudgeError) *episode.Final {
	s.outcome = score.Errored
	s.feedback = "The episode could not be scored: the judge failed. Reset to play it again."
	final := s.final()
	final.Cause, final.Detail = unjudged.Cause, unjudged.Detail()
	return final
}

// refuseAction counts an action outside the schema, which costs no step. The last one allowed ends
// the episode.
func (s *state) refuseAction(err *episode.ActionError) {
	s.invalid++
	s.feedback = err.Error()
	if s.invalid >= episode.MaxInvalidActions {
		s.outcome = score.Failed
		s.feedback += fmt.Sprintf(". This was invalid action %d: the episode is over.", s.invalid)
	}
}

// Fork shares the state, which each step replaces.
func (e *environment) Fork() episode.Environment {
	fork := *e
	return &fork
}

// Verdicts implements episode.Judged.
func (e *environment) Verdicts() ([]json.RawMessage, error) {
	if e.state == nil {
		return nil, nil
	}
	return e.state.encodeVerdicts()
}

// Recall implements episode.Judged.
func (e *environment) Recall(verdicts []json.RawMessage) error {
	e.recalled = make(map[string]grader.Verdict, len(verdicts))
	for _, text := range verdicts {
		var v ticketVerdict
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("reading a verdict: %w", err)
		}
		e.recalled[v.Case] = v.Verdict
	}
	return nil
}

func (e *environment) currentJudge() grader.Judge {
	if e.recalled == nil {
		return e.kind.judge
	}
	return recallingJudge{e.kind.judge, e.recalled}
}

// recallingJudge calls the judge only for cases without a verdict.
type recallingJudge struct {
	judge  grader.Judge
	byCase map[string]grader.Verdict
}

func (j recallingJudge) Name() string { return j.judge.Name() }

// Timeout is the judge's, 0 for none.
func (j recallingJudge) Timeout() time.Duration {
	if bounded, ok := j.judge.(grader.Bounded); ok {
		return bounded.Timeout()
	}
	return 0
}

func (j recallingJudge) Judge(ctx context.Context, c grader.Case) (grader.Verdict, error) {
	if v, ok := j.byCase[c.Digest()]; ok {
		return v, nil
	}
	return j.judge.Judge(ctx, c)
}

// State reports the episode without gold labels.
func (e *environment) State() any {
	s := e.state
	if s == nil {
		return State{}
	}
	return State{
		EpisodeID: new(e.opts.EpisodeID), StepCount: s.step, Seed: e.opts.Seed, Task: s.task.Name,
		TicketID: s.selectedTicket().id, Status: s.selectedTicket().status, Done: s.outcome != "",
		MaxSteps:   s.task.MaxSteps,
		RewardMode: s.mode, InvalidActions: s.invalid, Pressure: s.pressure, ClockMinutes: s.clock,
	}
}
