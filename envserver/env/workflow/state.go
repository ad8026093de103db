package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
)

// Rewards in milli-points.
const (
	stepPoints       = 200 // of a required step; of all look-ups and questions of a generated case
	resolutionPoints = 500
	casePoints       = 800 // the resolution of a generated case
	lookUpPoints     = 20  // of stepPoints: paid for a kind of look-up of a generated case, needed or not
	wrongPenalty     = 100 // wrong, repeated, out of order, forbidden or malformed
	neutralPenalty   = 20  // a needless look-up, or any step beyond the number of required steps
	exhaustedPenalty = 200 // the step limit was reached
)

// paidLookUps is how many kinds of look-ups of a generated case are paid before a right reply.
// Every case requires as many, so that a wrong reply leaves the same in easy and hard ones.
const paidLookUps = 2

type state struct {
	task     *task
	workflow *scenarios.Workflow
	reader   Reader
	scale    string
	mode     episode.RewardMode

	records                    *desk.Records
	orderStatus, paymentStatus string
	history                    []Entry
	last                       document
	step                       int
	// minutes are on the simulated clock.
	minutes, invalid int
	// calls counts the calls of each action, faults those that failed by the script and cost
	// nothing.
	calls     map[string]int
	faults    int
	topics    []string // of the policy that were read
	satisfied []bool
	neutrals  []int
	// breaches are the reasons why the issue can't be resolved any more.
	breaches []grader.Gate
	replied  bool
	message  string
	// stated are the facts beside the messages.
	stated []facts.Fact
	// told is what the reply tells the customer, nil before it, and letter a model's verdict on it.
	told   *grader.Told
	letter *grader.Verdict
	// cause and detail say why the letter that ended the episode couldn't be judged.
	cause, detail string

	// In milli-points: earned by the resolution, and already paid as reward.
	earnedResolution, paid int64
	fines                  []fine
	// needless are fined beside a right reply alone: see excess.
	needless []fine
	// talk is the customer of a conversation, and said are the messages of both sides after the
	// first, the last of which was told at the step toldAt. turn is the customer's last one and
	// answer the result with it. heard is what the message of the present step does, if another
	// customer than the embedded one has read it.
	talk   talk.State
	said   []string
	toldAt int
	turn   *talk.Turn
	answer result
	heard  *talk.Heard
	// exchanges are those with a customer that isn't the embedded one.
	exchanges []episode.Exchange
	// lookedUp are the tools with which something of a generated case was looked up or asked, as
	// bits in the order of desk.Tools.
	lookedUp uint32
	// outcome is "" until the episode has ended.
	outcome score.Outcome
}

func newState(t *task, w *scenarios.Workflow, reader Reader, mode episode.RewardMode) *state {
	s := &state{
		task: t, workflow: w, reader: reader, mode: mode, records: w.Records.Clone(),
		orderStatus: hideUnknown(w.Visible.OrderStatus), paymentStatus: hideUnknown(w.Visible.PaymentStatus),
		calls: map[string]int{}, satisfied: make([]bool, len(w.Steps)), neutrals: make([]int, len(w.Neutral)),
	}
	if w.Talk != nil {
		s.talk = w.Talk.Begin()
	}
	return s
}

// hideUnknown returns a status as the agent sees it before a look-up.
func hideUnknown(status string) string {
	if status == "unknown" {
		return ""
	}
	return status
}

// playAction executes an action and adds its points and costs.
func (s *state) playAction(a episode.Action) error {
	args := normalizePayload(a)
	s.step++
	s.turn = nil
	s.calls[a.Type]++
	s.minutes += s.workflow.StepMinutes[a.Type]
	answer := s.carryOut(a.Type, args)
	if s.outcome == "" && s.step >= s.workflow.MaxSteps {
		s.addFine(a.Type, exhaustedPenalty, "no step is left")
		s.outcome = score.Failed
	}
	return s.recordAction(a.Type, args, answer)
}

// fine is a penalty with its reason.
type fine struct {
	step   int
	action string
	points int64
	why    string
}

func (s *state) addFine(action string, points int64, why string) {
	s.fines = append(s.fines, fine{s.step, action, points, why})
}

// addExcess notes what need not be done. It costs only a right reply, because its fine would tell
// what is required.
func (s *state) addExcess(action, why string) {
	s.needless = append(s.needless, fine{s.step, action, neutralPenalty, why})
}

// carryOut returns an action's result. A call that fails by the script costs nothing and doesn't
// count as an excess step.
func (s *state) carryOut(action string, args desk.Args) result {
	if fault := s.findFault(action); fault != "" {
		s.faults++
		return newFailure("%s", fault)
	}
	before := len(s.fines)
	answer := s.takeAction(action, args)
	if s.workflow.Rules.PaysLookUpsApart && isLookUp(action) && answer.OK {
		s.lookedUp |= 1 << desk.IndexTool(action)
	}
	if s.workflow.Rules.FinesExcess && s.step-s.faults > len(s.workflow.Steps) &&
		!slices.ContainsFunc(s.fines[before:], func(f fine) bool { return f.points == neutralPenalty }) {
		s.addExcess(action, "more steps than the case needs")
	}
	return answer
}

// takeAction executes an action, adds its points and costs, and returns its result. A forbidden
// action is never a required step.
func (s *state) takeAction(action string, args desk.Args) result {
	switch action {
	case desk.RespondUser:
		return s.sendMessage(args)
	case desk.AskCustomer:
		return s.askCustomer(args)
	case desk.Tell:
		return s.tell(args)
	}
	breach := s.findBreach(action, args)
	if breach != nil {
		s.breaches = append(s.breaches, *breach)
	}
	step, blocked := s.nextStep(action, args)
	if s.isUnconfirmed(action, args) {
		step = -1
	}
	switch {
	case desk.IsChange(action) && (step < 0 && blocked || s.tooEarly(action)):
		s.addFine(action, wrongPenalty, "before a required step that comes first")
		return newFailure("not done: %s", s.describeMissing())
	case breach != nil:
		s.addFine(action, wrongPenalty, "forbidden: "+breach.Reason)
	case step >= 0:
		s.satisfyStep(step)
	case s.workflow.Talk.Misleads(args.Text("order_id")): // which is the customer's fault
	case s.workflow.Rules.PaysLookUpsApart && isLookUp(action):
		s.addExcess(action, "a needless look-up")
	case !blocked && s.isNeutral(action, args):
		s.addFine(action, neutralPenalty, "a needless look-up")
	case blocked:
		s.addFine(action, wrongPenalty, "before a required step that comes first")
	default:
		s.addFine(action, wrongPenalty, "repeated, or not what the case requires")
	}
	answer := s.callTool(action, args)
	if s.workflow.Rules.OtherChangesSpoil && step < 0 && answer.Done != "" {
		s.breaches = append(s.breaches, grader.Gate{ID: action, Reason: "changes what the policy leaves as it is"})
	}
	return answer
}

// describeMissing says what can be missing before a change. It is the same for every change and
// every moment of an environment's cases, so that it reveals nothing about the present one.
func (s *state) describeMissing() string {
	if s.workflow.Rules.ChangesNeedLookUps {
		return "before this change, look up the records (customer, order, payments, parcels) and read the topics of " +
			"the policy that it depends on, and ask the customer for what they alone know"
	}
	return "before this change, look up the order and the payments that it depends on, ask the customer for what " +
		"they alone know, and make the changes that come first"
}

// tooEarly reports whether a look-up or a question is missing before a change. Neither its
// arguments nor whether the case needs such a change matter: if only right changes were
// refused, agents could find them by trial. Where changes don't need look-ups of their own, a kind
// of change may come as soon as one of its steps may.
func (s *state) tooEarly(change string) bool {
	if waiting := s.listWaiting(change); !s.workflow.Rules.ChangesNeedLookUps && len(waiting) > 0 {
		return !slices.ContainsFunc(waiting, func(i int) bool { return s.isReady(s.workflow.Steps[i]) })
	}
	for i, step := range s.workflow.Steps {
		if !s.satisfied[i] && !step.Terminal && !desk.IsChange(step.Action) && step.Confirms == nil {
			return true
		}
	}
	return s.workflow.Rules.ChangesNeedLookUps && !s.hasLookedUp(change)
}

// hasLookedUp reports whether the look-ups were made on which a change of this kind always depends.
func (s *state) hasLookedUp(change string) bool {
	tool := desk.FindTool(change)
	return !slices.ContainsFunc(tool.After, func(other string) bool { return s.calls[other] == 0 }) &&
		!slices.ContainsFunc(tool.Topics, func(topic string) bool { return !slices.Contains(s.topics, topic) })
}

// isLookUp reports whether an action of a generated case is a look-up or a question.
func isLookUp(action string) bool { return !desk.IsChange(action) && action != desk.RespondUser }

// listWaiting lists the indices of an action's required steps that aren't done.
func (s *state) listWaiting(action string) []int {
	var open []int
	for i, step := range s.workflow.Steps {
		if step.Action == action && !s.satisfied[i] && !step.Terminal && !step.Ask {
			open = append(open, i)
		}
	}
	return open
}

// findFault returns the scripted error of the current call, or "".
func (s *state) findFault(action string) string {
	for _, f := range s.workflow.Faults {
		if f.Action == action && f.Call == s.calls[action] {
			return f.Error
		}
	}
	return ""
}

// nextStep finds a required step that the action fulfils. blocked means that every such step has
// unmet prerequisites.
func (s *state) nextStep(action string, args map[string]any) (step int, blocked bool) {
	for _, i := range s.listWaiting(action) {
		step := s.workflow.Steps[i]
		if !step.Accepts(args) {
			continue
		}
		if s.isReady(step) {
			return i, false
		}
		blocked = true
	}
	return -1, blocked
}

func (s *state) isReady(step scenarios.WorkflowStep) bool {
	return !slices.ContainsFunc(step.Requires, func(id string) bool {
		i := slices.IndexFunc(s.workflow.Steps, func(other scenarios.WorkflowStep) bool { return other.ID == id })
		return i < 0 || !s.satisfied[i]
	})
}

func (s *state) satisfyStep(step int) { s.satisfied[step] = true }

// isNeutral reports whether the action is a harmless look-up that is still permitted, and counts
// it. Repeating a step that is done is not neutral.
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

// findBreach returns the rule that forbids an action other than a reply, or nil.
func (s *state) findBreach(action string, args map[string]any) *grader.Gate {
	moment := scenarios.Moment{Records: s.records, Payload: args}
	for _, f := range s.workflow.Forbidden {
		if f.Action == action && (f.When.IsZero() || isPredicateTrue(f.When, moment)) {
			return &grader.Gate{ID: f.ID, Reason: f.Why}
		}
	}
	return nil
}

// isPredicateTrue reports whether a predicate is true. A predicate on a missing argument is false.
func isPredicateTrue(p scenarios.Predicate, m scenarios.Moment) bool {
	ok, err := p.Holds(m)
	return ok && err == nil
}

// sendMessage sends a message: a question that the scenario requires, or the reply that ends the
// episode.
func (s *state) sendMessage(args desk.Args) result {
	message := args.Text("message")
	if message == "" {
		s.addFine(desk.RespondUser, wrongPenalty, "message is missing")
		return newFailure("message is missing")
	}
	s.stated = facts.Join(s.stated, getFacts(args))
	breach := s.findBreach(desk.RespondUser, args)
	if ask := s.findQuestion(message); s.workflow.Rules.Tools == desk.Written && ask >= 0 && breach == nil {
		s.satisfyStep(ask)
		return result{OK: true, Sent: message, Answer: s.workflow.Steps[ask].Answer}
	}
	all := s.joinMessages(message)
	told := s.reader.Tell(s.workflow, all, s.stated)
	s.replied, s.message, s.told, s.outcome = true, all, &told, score.Scored
	s.settleReply(args, breach)
	sent := result{OK: true, Sent: message}
	if !facts.AnyStated(s.stated) {
		sent.Note = facts.NoneStated
	}
	return sent
}

// settleReply pays the reply that ends the episode: its step if it is right, and the resolution by
// what it tells.
func (s *state) settleReply(args map[string]any, breach *grader.Gate) {
	last := slices.IndexFunc(s.workflow.Steps, func(step scenarios.WorkflowStep) bool { return step.Terminal })
	if breach != nil {
		s.breaches = append(s.breaches, *breach)
		s.addFine(desk.RespondUser, wrongPenalty, "forbidden: "+breach.Reason)
		return
	}
	if last < 0 || !s.workflow.Steps[last].Accepts(args) ||
		!s.workflow.Rules.PaysLookUpsApart && !s.isReady(s.workflow.Steps[last]) {
		s.addFine(desk.RespondUser, wrongPenalty, "before a required step that comes first")
		return
	}
	if s.told.IsRight() {
		s.satisfyStep(last)
	}
	if s.isResolved(last) {
		s.earnedResolution = s.told.Points(s.offeredResolution())
	}
}

// listChanges are the agent's changes with their results.
func (s *state) listChanges() (done []string) {
	for _, e := range s.history {
		if desk.IsChange(e.ActionType) {
			done = append(done, fmt.Sprintf("%s %s: %s", e.ActionType, e.Payload, e.Result))
		}
	}
	return done
}

// capResolution lowers what the resolution earns by a model's verdict on the letter.
func (s *state) capResolution(v grader.Verdict) {
	s.letter, s.told.Gates = &v, v.Gates
	if s.earnedResolution > 0 {
		s.earnedResolution = s.told.Points(s.offeredResolution())
	}
	for i, step := range s.workflow.Steps {
		s.satisfied[i] = s.satisfied[i] && (!step.Terminal || s.told.IsRight())
	}
}

// giveUp ends the episode without a score.
func (s *state) giveUp(unjudged *episode.JudgeError) (err error) {
	s.outcome, s.cause, s.detail = score.Errored, unjudged.Cause, unjudged.Detail()
	s.last, err = encodeDocument(
		newFailure("The episode could not be scored: the judge failed. Reset to play it again."))
	return err
}

// offeredResolution returns the points of the resolution.
func (s *state) offeredResolution() int64 {
	if s.workflow.Rules.PaysLookUpsApart {
		return casePoints
	}
	return resolutionPoints
}

// findQuestion returns the index of the question step that a message fulfils, or -1.
func (s *state) findQuestion(message string) int {
	for i, step := range s.workflow.Steps {
		if step.Ask && !s.satisfied[i] && s.isReady(step) &&
			episode.HasQuestionAbout(message, step.About, s.workflow.AskWords) {
			return i
		}
	}
	return -1
}

// isResolved reports whether every required step but the last was done, no forbidden action, and
// the backend's final state meets every goal. In a generated case the required changes count: a
// look-up that is left out costs its own points, and the changes that are refused without it.
func (s *state) isResolved(last int) bool {
	if len(s.breaches) > 0 || s.workflow.Talk != nil && s.talk.Turns() == 0 { // CNV-4
		return false
	}
	for i, done := range s.satisfied {
		if !done && i != last && (!s.workflow.Rules.PaysLookUpsApart || desk.IsChange(s.workflow.Steps[i].Action)) {
			return false
		}
	}
	return s.meetsGoal()
}

// isRight reports whether the issue is resolved and the reply is right.
func (s *state) isRight() bool {
	return s.told != nil && s.told.IsRight() && s.earnedResolution == s.offeredResolution()
}

func (s *state) meetsGoal() bool {
	return !slices.ContainsFunc(s.workflow.Goal, func(goal scenarios.Predicate) bool { return !s.meetsPredicate(goal) })
}

func (s *state) meetsPredicate(goal scenarios.Predicate) bool {
	return isPredicateTrue(goal, scenarios.Moment{Records: s.records, Replied: s.replied, Message: s.message})
}

// payReward returns the reward since the last payment. It is 0 before the end of an episode with
// terminal rewards.
func (s *state) payReward() int64 {
	if s.outcome == "" && s.mode == episode.Terminal {
		return 0
	}
	reward := s.currentPoints() - s.paid
	s.paid += reward
	return reward
}

func (s *state) currentPoints() int64 { return s.earnedSteps() + s.earnedResolution - s.sumFines() }

// listFines lists the fines that count.
func (s *state) listFines() []fine {
	if s.isRight() {
		return slices.Concat(s.fines, s.needless)
	}
	return s.fines
}

// sumFines returns the sum of the fines that count.
func (s *state) sumFines() (points int64) {
	for _, f := range s.listFines() {
		points += f.points
	}
	return points
}

// makeFinal returns nil before the end of the episode.
func (s *state) makeFinal() (*episode.Final, error) {
	if s.outcome == "" {
		return nil, nil
	}
	if s.outcome == score.Errored {
		return &episode.Final{Task: s.task.Name, Scenario: s.workflow.ScenarioID, Category: s.workflow.Category,
			Outcome: s.outcome, Judge: s.scale, Cause: s.cause, Detail: s.detail, Customer: s.exchanges}, nil
	}
	verdict, err := encodeDocument(s.explainPoints())
	if err != nil {
		return nil, err
	}
	dimensions := []score.Dimension{
		{Name: "steps", Earned: s.earnedSteps(), Offered: s.offeredSteps()},
		{Name: "resolution", Earned: s.earnedResolution, Offered: s.offeredResolution()},
		{Name: "penalties", Earned: -s.sumFines()},
	}
	return &episode.Final{
		Task: s.task.Name, Scenario: s.workflow.ScenarioID, Category: s.workflow.Category, Outcome: s.outcome,
		Judge: s.scale, Wrong: !s.isRight(),
		Score: grader.EpisodeScore(dimensions), Dimensions: dimensions,
		Verdicts: []json.RawMessage{json.RawMessage(verdict)}, Customer: s.exchanges,
	}, nil
}

func (s *state) recordAction(action string, args map[string]any, answer result) error {
	if amount, ok := args["amount"].(int64); ok {
		args["amount"] = scenarios.Cents(amount)
	}
	sent, err := encodeDocument(args)
	if err != nil {
		return err
	}
	if s.last, err = encodeDocument(answer); err != nil {
		return err
	}
	s.answer = answer
	s.history = append(s.history, Entry{Step: s.step, ActionType: action, Payload: sent, Result: s.last})
	return nil
}
