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
type course struct {
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

func newCourse(t *task, w *scenarios.Workflow, reader Reader, mode episode.RewardMode) *course {
	return &course{
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
func (c *course) play(a episode.Action) error {
	args := payload(a)
	c.step++
	c.calls[a.Type]++
	c.minutes += c.workflow.StepMinutes[a.Type]
	answer, cost := c.carryOut(a.Type, args)
	c.penalties += cost
	if c.outcome == "" && c.step >= c.workflow.MaxSteps {
		c.penalties += exhaustedPenalty
		c.outcome = score.Failed
	}
	return c.record(a.Type, args, answer)
}

// carryOut returns what the action came to and what it costs. A call that fails by the script is
// excused: it costs nothing and, however late, is no step too many.
func (c *course) carryOut(action string, args map[string]any) (result, int64) {
	if fault := c.fault(action); fault != "" {
		c.faults++
		return failure("%s", fault), 0
	}
	answer, cost := c.act(action, args)
	if c.step-c.faults > len(c.workflow.Steps) && cost != neutralPenalty {
		cost += neutralPenalty
	}
	return answer, cost
}

// act carries the action out, books what it earns and returns what it costs by itself. A forbidden
// act is never a step.
func (c *course) act(action string, args map[string]any) (result, int64) {
	if action == scenarios.RespondUser {
		return c.respond(args)
	}
	forbidden := c.isForbidden(action, args)
	c.forbidden = c.forbidden || forbidden
	step, blocked := c.nextStep(action, args)
	switch {
	case step < 0 && c.tooEarly(action):
		return failure("not done: something has to be looked up or settled first"), wrongPenalty
	case forbidden:
		return c.call(action, args), wrongPenalty
	case step >= 0:
		c.satisfy(step)
		return c.call(action, args), 0
	case !blocked && c.isNeutral(action, args):
		return c.call(action, args), neutralPenalty
	default:
		return c.call(action, args), wrongPenalty
	}
}

// tooEarly reports whether the action changes the backend and a required step of its type waits for
// others. The arguments play no part: if only the right team or amount were held back, agents could
// find it by trying.
func (c *course) tooEarly(action string) bool {
	return changes(action) && slices.ContainsFunc(c.waiting(action),
		func(i int) bool { return !c.ready(c.workflow.Steps[i]) })
}

// waiting lists the required steps of an action, by index, that aren't done.
func (c *course) waiting(action string) []int {
	var open []int
	for i, s := range c.workflow.Steps {
		if s.Action == action && !c.satisfied[i] && !s.Terminal && !s.Ask {
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
func (c *course) fault(action string) string {
	for _, f := range c.workflow.Faults {
		if f.Action == action && f.Call == c.calls[action] {
			return f.Error
		}
	}
	return ""
}

// nextStep finds a required step that the action does now. blocked says that there is only one that
// waits for others.
func (c *course) nextStep(action string, args map[string]any) (step int, blocked bool) {
	for _, i := range c.waiting(action) {
		s := c.workflow.Steps[i]
		if !s.Accepts(args) {
			continue
		}
		if c.ready(s) {
			return i, false
		}
		blocked = true
	}
	return -1, blocked
}

// ready reports whether a step's prerequisites are met.
func (c *course) ready(s scenarios.WorkflowStep) bool {
	for _, id := range s.Requires {
		i := slices.IndexFunc(c.workflow.Steps, func(other scenarios.WorkflowStep) bool { return other.ID == id })
		if i < 0 || !c.satisfied[i] {
			return false
		}
	}
	return true
}

func (c *course) satisfy(step int) {
	c.satisfied[step] = true
	c.earnedSteps += stepPoints
}

// isNeutral reports whether the action is a harmless look-up that is still free to make, and counts
// it. A step done before is a repeat, never neutral.
func (c *course) isNeutral(action string, args map[string]any) bool {
	for i, s := range c.workflow.Steps {
		if s.Action == action && c.satisfied[i] && s.Accepts(args) {
			return false
		}
	}
	for i, n := range c.workflow.Neutral {
		if n.Action == action && n.Accepts(args) && c.neutrals[i] < n.Max {
			c.neutrals[i]++
			return true
		}
	}
	return false
}

func (c *course) isForbidden(action string, args map[string]any) bool {
	moment := scenarios.Moment{Backend: &c.backend, Payload: args}
	for _, f := range c.workflow.Forbidden {
		if f.Action != action {
			continue
		}
		switch {
		case f.When.IsZero() && len(f.Verbs) == 0:
			return true
		case len(f.Verbs) > 0 && c.reader.Commits(text(args, "message"), f.Verbs, c.workflow.Language):
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
func (c *course) respond(args map[string]any) (result, int64) {
	message := text(args, "message")
	if message == "" {
		return failure("message is missing"), wrongPenalty
	}
	forbidden := c.isForbidden(scenarios.RespondUser, args)
	if ask := c.question(message); ask >= 0 && !forbidden {
		c.satisfy(ask)
		return result{OK: true, Sent: message, Answer: c.workflow.Steps[ask].Answer}, 0
	}
	c.replied, c.message, c.outcome = true, message, score.Scored
	c.forbidden = c.forbidden || forbidden
	sent := result{OK: true, Sent: message}
	last := slices.IndexFunc(c.workflow.Steps, func(s scenarios.WorkflowStep) bool { return s.Terminal })
	if forbidden || last < 0 || !c.ready(c.workflow.Steps[last]) || !c.workflow.Steps[last].Accepts(args) ||
		!c.statesFacts(message) {
		return sent, wrongPenalty
	}
	c.satisfy(last)
	if c.resolved() {
		c.earnedResolution = resolutionPoints
	}
	return sent, 0
}

// question finds the asking step that a message does, -1 for none.
func (c *course) question(message string) int {
	for i, s := range c.workflow.Steps {
		if s.Ask && !c.satisfied[i] && c.ready(s) && asks(message, s.About) {
			return i
		}
	}
	return -1
}

func (c *course) statesFacts(message string) bool {
	for i, stated := range c.reader.FactsStated(message, c.workflow.Facts, c.workflow.AllowedValues,
		c.workflow.Language) {
		if !stated && !c.workflow.Facts[i].Optional {
			return false
		}
	}
	return true
}

// resolved reports whether every required step is done, nothing forbidden was, and the backend
// ended as it should.
func (c *course) resolved() bool {
	if c.forbidden || slices.Contains(c.satisfied, false) {
		return false
	}
	end := scenarios.Moment{Backend: &c.backend, Replied: c.replied, Message: c.message}
	for _, goal := range c.workflow.Goal {
		if !holds(goal, end) {
			return false
		}
	}
	return true
}

// refuse books an action outside the schema, which costs no step. The last one that is put up with
// ends the episode.
func (c *course) refuse(err *episode.ActionError) error {
	c.invalid++
	c.penalties += wrongPenalty
	if c.invalid < episode.MaxInvalidActions {
		return nil
	}
	c.outcome = score.Failed
	last, err2 := freeze(failure("%v. This was invalid action %d: the episode is over", err, c.invalid))
	c.last = last
	return err2
}

// pay returns the reward of the books' change since the last payment; before the end of an episode
// with terminal rewards, nothing.
func (c *course) pay() int64 {
	if c.outcome == "" && c.mode == episode.Terminal {
		return 0
	}
	balance := c.balance()
	reward := balance - c.paid
	c.paid = balance
	return reward
}

func (c *course) balance() int64 { return c.earnedSteps + c.earnedResolution - c.penalties }

// final is the end of the episode, nil before.
func (c *course) final() *episode.Final {
	if c.outcome == "" {
		return nil
	}
	dimensions := []score.Dimension{
		{Name: "steps", Earned: c.earnedSteps, Offered: stepPoints * int64(len(c.workflow.Steps))},
		{Name: "resolution", Earned: c.earnedResolution, Offered: resolutionPoints},
		{Name: "penalties", Earned: -c.penalties},
	}
	return &episode.Final{
		Task: c.task.name, Scenario: c.workflow.ScenarioID, Category: category, Outcome: c.outcome, Judge: scale,
		Score: grader.EpisodeScore(dimensions), Dimensions: dimensions,
	}
}

// record adds the action to the history.
func (c *course) record(action string, args map[string]any, answer result) error {
	if amount, ok := args["amount"].(int64); ok {
		args["amount"] = scenarios.Cents(amount)
	}
	sent, err := freeze(args)
	if err != nil {
		return err
	}
	if c.last, err = freeze(answer); err != nil {
		return err
	}
	c.history = append(c.history, Entry{Step: c.step, ActionType: action, Payload: sent, Result: c.last})
	return nil
}
