package workflow

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/talk"
	"github.com/csenv/csenv/tasks"
)

// Proof is the result of proving a generated case.
type Proof struct {
	// Faults say what doesn't hold. A proved case has none.
	Faults []string
	// Steps is the number of required steps, Tried the number of paths that were played.
	Steps, Tried int
}

// ProveCase checks a generated case by playing it:
//
//   - The required steps earn 1, and a reply without any step earns 0.
//   - Every required look-up and question without a change and with a refusal earns at most 0.12.
//   - If one look-up or question is left out, its points are lost, and no required change that
//     depends on it is accepted.
//   - At every point of the required changes, each other change that can be made with the ids,
//     amounts, addresses and teams that the agent can see spoils the resolution, whatever follows.
//   - The same holds if a required change is made twice.
//   - In a conversation, every sequence of up to two messages, each with one question, offer or
//     request for a confirmation, passes with all required look-ups and changes and the right reply
//     if and only if the customer has told and confirmed what the case requires.
//
// Two facts about the environment make these paths enough. Look-ups change nothing but what is
// known, so paths differ by their sets of steps and not by their orders. A change that isn't
// required stays in the records and in the list of breaches, so no later action repairs it.
func ProveCase(w *scenarios.Workflow, reader Reader) Proof {
	p := &prover{workflow: w, reader: &rememberingReader{Reader: reader}}
	p.Steps = len(w.Steps)
	p.proveGold()
	p.proveNull()
	p.proveRefusal()
	p.proveLookUps()
	p.proveChanges()
	if w.Talk != nil {
		p.proveMessages()
	}
	return p.Proof
}

// prover plays paths of one case.
type prover struct {
	Proof
	workflow *scenarios.Workflow
	reader   Reader
}

// rememberingReader compares the same message and facts only once.
type rememberingReader struct {
	Reader
	message string
	stated  []facts.Fact
	told    grader.Told
}

func (r *rememberingReader) Tell(w *scenarios.Workflow, message string, stated []facts.Fact) grader.Told {
	if r.message != message || !slices.Equal(r.stated, stated) {
		r.message, r.stated, r.told = message, stated, r.Reader.Tell(w, message, stated)
	}
	return r.told
}

func (p *prover) failf(format string, args ...any) {
	p.Faults = append(p.Faults, fmt.Sprintf(format, args...))
}

func (p *prover) beginEpisode() *state {
	p.Tried++
	return newState(&task{}, p.workflow, p.reader, episode.Terminal)
}

// takeStep plays a required step, again after a scripted failure.
func (p *prover) takeStep(s *state, step scenarios.WorkflowStep) {
	for range 2 {
		failed := s.faults
		p.playAction(s, step.Action, p.stepArguments(step))
		if s.faults == failed {
			return
		}
	}
}

func (p *prover) playAction(s *state, action string, args map[string]any) result {
	s.step++
	s.calls[action]++
	return s.carryOut(action, args)
}

// stepArguments returns a payload that the step accepts.
func (p *prover) stepArguments(step scenarios.WorkflowStep) map[string]any {
	args := map[string]any{}
	for _, a := range step.Args {
		args[a.Name] = a.In[0]
	}
	switch {
	case step.Action == desk.Tell:
		maps.Copy(args, p.workflow.Message(step))
	case step.Ask:
		args["message"] = "Could you please tell me: " + step.About[0] + "?"
	case step.Terminal:
		args["message"], args["facts"] = p.workflow.References.Good[0], facts.Stated(p.workflow.Required())
	}
	return args
}

func (p *prover) proveGold() {
	s := p.beginEpisode()
	for _, step := range p.workflow.Steps {
		p.takeStep(s, step)
	}
	if got, err := s.makeFinal(); err != nil || got == nil || got.Score != score.One {
		p.failf("the required steps don't earn 1: %s", s.explainReply())
	}
}

// explainReply says what the reply lacks.
func (s *state) explainReply() string {
	if s.told == nil {
		return "the customer got no reply"
	}
	return fmt.Sprintf("required facts %v, stated facts %v, gates %v, steps %v", s.told.Facts.Required,
		s.told.Facts.Stated, s.told.Gates, s.satisfied)
}

func (p *prover) proveNull() {
	s := p.beginEpisode()
	p.playAction(s, desk.RespondUser, map[string]any{"message": "Thank you for your message."})
	if got, err := s.makeFinal(); err != nil || got == nil || got.Score != 0 {
		p.failf("a reply without any step earns points")
	}
}

// refusalScore is the maximum score of an episode that looks everything up and settles nothing.
const refusalScore = lookUpPoints * paidLookUps * score.One / 1000

func (p *prover) proveRefusal() {
	s := p.beginEpisode()
	for _, step := range p.workflow.Steps {
		if !step.Terminal && !desk.IsChange(step.Action) {
			p.takeStep(s, step)
		}
	}
	p.playAction(s, desk.RespondUser, map[string]any{"message": "Thank you for your message."})
	if got, err := s.makeFinal(); err != nil || got == nil || got.Score > refusalScore {
		p.failf("look-ups and a refusal earn more than %.2f", float64(refusalScore)/score.One)
	}
}

// proveLookUps leaves out each look-up and question.
func (p *prover) proveLookUps() {
	for skipped, step := range p.workflow.Steps {
		if desk.IsChange(step.Action) || step.Terminal || step.Action == desk.Tell {
			continue // Messages are proved by themselves.
		}
		s := p.beginEpisode()
		for i, other := range p.workflow.Steps {
			if i != skipped {
				p.takeStep(s, other)
			}
		}
		got, err := s.makeFinal()
		accepted := err != nil || got == nil || got.Score == score.One
		for i, done := range s.satisfied {
			accepted = accepted || done && desk.IsChange(p.workflow.Steps[i].Action) &&
				slices.Contains(p.workflow.Steps[i].Requires, step.ID)
		}
		if accepted {
			p.failf("%s %s can be left out", step.ID, step.Action)
		}
	}
}

// proveMessages tries every sequence of up to two messages in place of the case's messages.
func (p *prover) proveMessages() {
	letters := p.listMessages()
	p.proveSequence(nil)
	for _, first := range letters {
		p.proveSequence([]map[string]any{first})
		for _, second := range letters {
			p.proveSequence([]map[string]any{first, second})
		}
	}
}

// listMessages are messages that do one thing each: ask about a topic, offer a change, ask whether
// a required change should be made or one with another argument, or nothing.
func (p *prover) listMessages() []map[string]any {
	greeting := p.workflow.Message(p.workflow.Steps[0])["message"]
	letters := []map[string]any{{}, {"offers": []string{desk.Refunding}}}
	for _, topic := range talk.Topics {
		letters = append(letters, map[string]any{"asks": []string{topic}})
	}
	for _, step := range p.workflow.Steps {
		if step.Confirms != nil {
			right := p.workflow.Message(step)
			wrong := maps.Clone(right)
			if wrong["address"] = "1 Another Street, Otherton"; wrong["amount"] != nil {
				wrong["amount"] = int64(step.Confirms.Amount) + 1
			}
			if step.Confirms.Tool == desk.Cancelling {
				wrong["order_id"] = "LD-000000"
			}
			letters = append(letters, right, wrong)
		}
	}
	for _, letter := range letters {
		letter["message"] = greeting
	}
	return letters
}

func (p *prover) proveSequence(messages []map[string]any) {
	s := p.beginEpisode()
	for _, m := range messages {
		p.playAction(s, desk.Tell, maps.Clone(m))
	}
	for _, step := range p.workflow.Steps {
		if step.Action != desk.Tell {
			p.takeStep(s, step)
		}
	}
	got, err := s.makeFinal()
	passes := err == nil && got != nil && got.Score >= talkPassScore()
	if want := p.suffices(messages); passes != want {
		p.failf("with the messages %v the case passes: %v, want %v", messages, passes, want)
	}
}

// talkPassScore is the score with which a conversation passes, whatever its task.
func talkPassScore() int64 {
	var names []string
	for _, t := range tasks.OfEnvironment(tasks.Workflow) {
		if t.Talks {
			names = append(names, t.Name)
		}
	}
	return tasks.PassScore(names...)
}

// suffices reports whether the messages make the customer tell and confirm what the case requires.
// It counts questions, and knows nothing of the customer's state.
func (p *prover) suffices(messages []map[string]any) bool {
	if len(messages) == 0 {
		return false
	}
	asked, needed := map[string]int{}, map[string]int{}
	for i, m := range messages {
		topics, _ := m["asks"].([]string)
		for _, topic := range topics {
			asked[topic]++
		}
		for _, act := range p.workflow.Talk.First {
			if i == 0 && act.Kind == talk.Tell && act.Topic != "" && !slices.Contains(topics, act.Topic) {
				asked[act.Topic]++
			}
		}
	}
	from := 0 // the first message in which the customer may confirm
	if slices.ContainsFunc(p.workflow.Talk.First, func(a talk.Act) bool { return a.Kind == talk.Rethink }) {
		from = 1
	}
	changes := false
	for _, step := range p.workflow.Steps {
		changes = changes || desk.IsChange(step.Action)
		for _, topic := range step.Asks {
			needed[topic]++
		}
		if step.Confirms == nil {
			continue
		}
		final := step.Confirms.Address == p.workflow.Talk.Address || step.Confirms.Address == ""
		at := slices.IndexFunc(messages[min(from, len(messages)):], func(m map[string]any) bool {
			tools, _ := m["confirms"].([]string)
			return slices.Contains(tools, step.Confirms.Tool) &&
				(!final || step.Confirms.IsWithin(desk.NewEffect(step.Confirms.Tool, m)))
		})
		if at < 0 {
			return false
		}
		if !final {
			from += at + 1
		}
	}
	if !changes {
		return true // A look-up or question that is left out costs its points alone.
	}
	for topic, n := range needed {
		if topic != talk.AboutRest && asked[topic] < n {
			return false
		}
	}
	return true
}

// proveChanges tries every other change before, between and after the required ones.
func (p *prover) proveChanges() {
	first := slices.IndexFunc(p.workflow.Steps,
		func(step scenarios.WorkflowStep) bool { return desk.IsChange(step.Action) || step.Terminal })
	s := p.beginEpisode()
	for _, step := range p.workflow.Steps[:first] {
		p.takeStep(s, step)
	}
	// Everything else is looked up too, so that no change is refused.
	s.topics = desk.ListTopics()
	for _, tool := range desk.Tools {
		if tool.Show != nil {
			s.calls[tool.Name]++
		}
	}
	others := p.listChanges(desk.Tools)
	for at := first; at < len(p.workflow.Steps); at++ {
		for _, e := range others {
			p.proveChange(s.clone(), at, e)
		}
		p.takeStep(s, p.workflow.Steps[at])
	}
}

func (p *prover) proveChange(s *state, at int, e desk.Effect) {
	args := buildArguments(e)
	if step, _ := s.nextStep(e.Tool, args); step >= 0 || s.records.Problem(e) != "" {
		return // it is a required one, or can't be made
	}
	p.Tried++
	if done := p.playAction(s, e.Tool, args).Done; done == "" || len(s.breaches) > 0 {
		return
	}
	for _, step := range p.workflow.Steps[at:] {
		p.takeStep(s, step)
	}
	if s.earnedResolution > 0 {
		p.failf("%s %v is accepted beside what is required", e.Tool, args)
	}
}

func buildArguments(e desk.Effect) desk.Args { return maps.Collect(e.Args()) }

// listChanges lists the changes that can be made by tools with what the agent can see. It is a
// fault if there is nothing to try for an argument: the changes that need it would count as proved.
func (p *prover) listChanges(tools []desk.Tool) []desk.Effect {
	visible := p.listVisible()
	var out []desk.Effect
	for _, tool := range tools {
		if tool.Apply == nil {
			continue
		}
		calls := []desk.Args{{}}
		for _, arg := range tool.Args {
			name, optional := strings.CutSuffix(arg, "?")
			if _, known := visible[name]; !known {
				p.failf("no value of the argument %s of %s is known to try", name, tool.Name)
			}
			var longer []desk.Args
			for _, call := range calls {
				if optional {
					longer = append(longer, call)
				}
				for _, value := range visible[name] {
					with := maps.Clone(call)
					with[name] = value
					longer = append(longer, with)
				}
			}
			calls = longer
		}
		for _, call := range calls {
			out = append(out, desk.NewEffect(tool.Name, call))
		}
	}
	return out
}

// listVisible are the values that the agent can see, by the names of all arguments of changes.
// Records may have no item or payment, and a reason for a team is free text.
func (p *prover) listVisible() map[string][]any {
	r := p.workflow.Records
	out := map[string][]any{"address": {"1 Another Street, Otherton"}, "sku": nil, "payment_id": nil, "reason": nil}
	add := func(name string, value any) {
		if !slices.Contains(out[name], value) {
			out[name] = append(out[name], value)
		}
	}
	for _, team := range []string{"finance", "logistics", "security", "trust", "privacy"} {
		add("team", team)
	}
	for _, v := range append(r.Values(), p.workflow.Policy.Values()...) {
		if v.Amount > 0 {
			add("amount", int64(v.Amount))
		}
	}
	for _, step := range p.workflow.Steps {
		for _, a := range step.Args {
			if sum, ok := a.In[0].(int64); ok && sum > 0 {
				add("amount", sum)
			}
		}
	}
	for _, o := range r.Orders {
		add("order_id", o.ID)
		for _, it := range o.Items {
			add("sku", it.SKU)
		}
	}
	for _, sub := range r.Subscriptions {
		add("order_id", sub.ID)
	}
	for _, pay := range r.Payments {
		add("payment_id", pay.ID)
	}
	return out
}
