package workflow

import (
	"slices"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
)

// Rewards in milli-points.
const (
	stepPoints       = 200
	resolutionPoints = 500
	wrongPenalty     = 100 // wrong, repeated, out of order, forbidden or malformed
	neutralPenalty   = 20  // a harmless look-up, or any step beyond as many as the steps required
	exhaustedPenalty = 200 // the steps ran out
)

// course is the state of an episode.
type state struct {
	task     *task
	workflow *scenarios.Workflow
	reader   Reader
	mode     episode.RewardMode

	backend                    scenarios.Backend
	orderStatus, paymentStatus string
	history                    []Entry
	last                       document
	step                       int
	// minutes are those of the simulated clock that the actions took.
	minutes int
	invalid int
	// calls counts the calls of each action, faulty ones included; faults counts the calls that
	// failed by our script, which cost nothing.
	calls     map[string]int
	faults    int
	satisfied []bool
	neutrals  []int
	forbidden bool
	replied   bool
	message   string

	// The books, in milli-points: what was earned by steps and by the resolution, what was lost,
	// and what of the balance was paid as reward.
	earnedSteps, earnedResolution, penalties, paid int64
	// outcome is "" until the episode has ended.
	outcome score.Outcome
}

func newState(t *task, w *scenarios.Workflow, reader Reader, mode episode.RewardMode) *state {
	return &state{
		task: t, workflow: w, reader: reader, mode: mode, backend: w.State.Clone(),
		orderStatus: shown(w.Visible.OrderStatus), paymentStatus: shown(w.Visible.PaymentStatus),
		calls: map[string]int{}, satisfied: make([]bool, len(w.Steps)), neutrals: make([]int, len(w.Neutral)),
	}
}

// shown is what is known of a status before it was looked up.
func shown(status string) string {
	if status == "unknown" {
		return ""
	}
	return status
}

// play carries an action out and books what it earns and costs.
func (s *state) play(a episode.Action) error {
	args := payload(a)
	s.step++
	s.calls[a.Type]++
	s.minutes += s.workflow.StepMinutes[a.Type]
	answer, cost := s.carryOut(a.Type, args)
	s.penalties += cost
	if s.outcome == "" && s.step >= s.workflow.MaxSteps {
		s.penalties += exhaustedPenalty
		s.outcome = score.Failed
	}
	return s.record(a.Type, args, answer)
}

// carryOut returns what the action came to and what it costs. A call that fails by the script is
// excused: it costs nothing and, however late, is no step too many.
func (s *state) carryOut(action string, args map[string]any) (result, int64) {
	if fault := s.fault(action); fault != "" {
		s.faults++
		return failure("%s", fault), 0
	}
	answer, cost := s.act(action, args)
	if s.step-s.faults > len(s.workflow.Steps) && cost != neutralPenalty {
		cost += neutralPenalty
	}
	return answer, cost
}

// act carries the action out, books what it earns and returns what it costs by itself. A forbidden
// act is never a step.
func (s *state) act(action string, args map[string]any) (result, int64) {
	if action == scenarios.RespondUser {
		return s.respond(args)
	}
	forbidden := s.isForbidden(action, args)
	s.forbidden = s.forbidden || forbidden
	step, blocked := s.nextStep(action, args)
	switch {
	case step < 0 && s.tooEarly(action):
		return failure("not done: something has to be looked up or settled first"), wrongPenalty
	case forbidden:
		return s.call(action, args), wrongPenalty
	case step >= 0:
		s.satisfy(step)
		return s.call(action, args), 0
	case !blocked && s.isNeutral(action, args):
		return s.call(action, args), neutralPenalty
	default:
		return s.call(action, args), wrongPenalty
	}
}

// tooEarly reports whether the action changes the backend and a required step of its type waits for
// others. The arguments play no part: if only the right team or amount were held back, agents could
// find it by trying.
func (s *state) tooEarly(action string) bool {
	return changes(action) && slices.ContainsFunc(s.waiting(action),
		func(i int) bool { return !s.ready(s.workflow.Steps[i]) })
}

// waiting lists the required steps of an action, by index, that aren't done.
func (s *state) waiting(action string) []int {
	var open []int
	for i, step := range s.workflow.Steps {
		if step.Action == action && !s.satisfied[i] && !step.Terminal && !step.Ask {
			open = append(open, i)
		}
	}
	return open
}

// changes reports whether an action changes the backend.
func changes(action string) bool {
	return action == scenarios.InitiateRefund || action == scenarios.EscalateIssue
}

// fault is the scripted error of the current call, "" for none.
func (s *state) fault(action string) string {
	for _, f := range s.workflow.Faults {
		if f.Action == action && f.Call == s.calls[action] {
			return f.Error
		}
	}
	return ""
}

// nextStep finds a required step that the action does now. blocked says that there is only one that
// waits for others.
func (s *state) nextStep(action string, args map[string]any) (step int, blocked bool) {
	for _, i := range s.waiting(action) {
		step := s.workflow.Steps[i]
		if !step.Accepts(args) {
			continue
		}
		if s.ready(step) {
			return i, false
		}
		blocked = true
	}
	return -1, blocked
}

// ready reports whether a step's prerequisites are met.
func (s *state) ready(step scenarios.WorkflowStep) bool {
	for _, id := range step.Requires {
		i := slices.IndexFunc(s.workflow.Steps, func(other scenarios.WorkflowStep) bool { return other.ID == id })
		if i < 0 || !s.satisfied[i] {
			return false
		}
	}
	return true
}

func (s *state) satisfy(step int) {
	s.satisfied[step] = true
	s.earnedSteps += stepPoints
}

// isNeutral reports whether the action is a harmless look-up that is still free to make, and counts
// it. A step done before is a repeat, never neutral.
func (s *state) isNeutral(action string, args map[string]any) bool {
	for i, step := range s.workflow.Steps {
		if step.Action == action && s.satisfied[i] && step.Accepts(args) {
			return false
		}
	}
	for i, n := range s.workflow.Neutral {
		if n.Action == action && n.Accepts(args) && s.neutrals[i] < n.Max {
			s.neutrals[i]++
			return true
		}
	}
	return false
}

func (s *state) isForbidden(action string, args map[string]any) bool {
	moment := scenarios.Moment{Backend: &s.backend, Payload: args}
	for _, f := range s.workflow.Forbidden {
		if f.Action != action {
			continue
		}
		switch {
		case f.When.IsZero() && len(f.Verbs) == 0:
			return true
		case len(f.Verbs) > 0 && s.reader.Commits(text(args, "message"), f.Verbs, s.workflow.Language):
			return true
		case !f.When.IsZero() && holds(f.When, moment):
			return true
		}
	}
	return false
}

// holds takes a predicate that asks for what isn't there as false: the agent's action left it out.
func holds(p scenarios.Predicate, m scenarios.Moment) bool {
	ok, err := p.Holds(m)
	return ok && err == nil
}

// respond sends a message. It is a question that the case asks for, or it ends the episode.
func (s *state) respond(args map[string]any) (result, int64) {
	message := text(args, "message")
	if message == "" {
		return failure("message is missing"), wrongPenalty
	}
	forbidden := s.isForbidden(scenarios.RespondUser, args)
	if ask := s.question(message); ask >= 0 && !forbidden {
		s.satisfy(ask)
		return result{OK: true, Sent: message, Answer: s.workflow.Steps[ask].Answer}, 0
	}
	s.replied, s.message, s.outcome = true, message, score.Scored
	s.forbidden = s.forbidden || forbidden
	sent := result{OK: true, Sent: message}
	last := slices.IndexFunc(s.workflow.Steps, func(step scenarios.WorkflowStep) bool { return step.Terminal })
	if forbidden || last < 0 || !s.ready(s.workflow.Steps[last]) || !s.workflow.Steps[last].Accepts(args) ||
		!s.statesFacts(message) {
		return sent, wrongPenalty
	}
	s.satisfy(last)
	if s.resolved() {
		s.earnedResolution = resolutionPoints
	}
	return sent, 0
}

// question finds the asking step that a message does, -1 for none.
func (s *state) question(message string) int {
	for i, step := range s.workflow.Steps {
		if step.Ask && !s.satisfied[i] && s.ready(step) && asks(message, step.About) {
			return i
		}
	}
	return -1
}

func (s *state) statesFacts(message string) bool {
	for i, stated := range s.reader.FactsStated(message, s.workflow.Facts, s.workflow.AllowedValues,
		s.workflow.Language) {
		if !stated && !s.workflow.Facts[i].Optional {
			return false
		}
	}
	return true
}

// resolved reports whether every required step is done, nothing forbidden was, and the backend
// ended as it should.
func (s *state) resolved() bool {
	if s.forbidden || slices.Contains(s.satisfied, false) {
		return false
	}
	end := scenarios.Moment{Backend: &s.backend, Replied: s.replied, Message: s.message}
	for _, goal := range s.workflow.Goal {
		if !holds(goal, end) {
			return false
		}
	}
	return true
}

// refuse books an action outside the schema, which costs no step. The last one that is put up with
// ends the episode.
func (s *state) refuse(err *episode.ActionError) error {
	s.invalid++
	s.penalties += wrongPenalty
	if s.invalid < episode.MaxInvalidActions {
		return nil
	}
	s.outcome = score.Failed
	last, err2 := freeze(failure("%v. This was invalid action %d: the episode is over", err, s.invalid))
	s.last = last
	return err2
}

// pay returns the reward of the books' change since the last payment; before the end of an episode
// with terminal rewards, nothing.
func (s *state) pay() int64 {
	if s.outcome == "" && s.mode == episode.Terminal {
		return 0
	}
	balance := s.balance()
	reward := balance - s.paid
	s.paid = balance
	return reward
}

func (s *state) balance() int64 { return s.earnedSteps + s.earnedResolution - s.penalties }

// final is the end of the episode, nil before.
func (s *state) final() *episode.Final {
	if s.outcome == "" {
		return nil
	}
	dimensions := []score.Dimension{
		{Name: "steps", Earned: s.earnedSteps, Offered: stepPoints * int64(len(s.workflow.Steps))},
		{Name: "resolution", Earned: s.earnedResolution, Offered: resolutionPoints},
		{Name: "penalties", Earned: -s.penalties},
	}
	return &episode.Final{
		Task: s.task.name, Scenario: s.workflow.ScenarioID, Category: category, Outcome: s.outcome, Judge: scale,
		Score: grader.EpisodeScore(dimensions), Dimensions: dimensions,
	}
}

// record adds the action to the history.
func (s *state) record(action string, args map[string]any, answer result) error {
	if amount, ok := args["amount"].(int64); ok {
		args["amount"] = scenarios.Cents(amount)
	}
	sent, err := freeze(args)
	if err != nil {
		return err
	}
	if s.last, err = freeze(answer); err != nil {
		return err
	}
	s.history = append(s.history, Entry{Step: s.step, ActionType: action, Payload: sent, Result: s.last})
	return nil
}
