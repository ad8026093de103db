package workflow

import (
	"cmp"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// callDesk executes an action, other than a message, on the records of a generated case. Wrong
// changes are executed too.
func (s *state) callDesk(action string, args desk.Args) result {
	tool := desk.FindTool(action)
	if tool.Show == nil {
		e := desk.NewEffect(action, args)
		if problem := s.desk.Problem(e); problem != "" {
			return newFailure("%s", problem)
		}
		return result{OK: true, Done: s.desk.Apply(e)}
	}
	shown, problem := tool.Show(&desk.Desk{Policy: s.workflow.Desk.Policy, Records: s.desk}, args)
	if problem != "" {
		return newFailure("%s", problem)
	}
	if shown.Policy != "" {
		s.topics = append(s.topics, args.Text("topic"))
	}
	s.orderStatus = cmp.Or(shown.OrderStatus, s.orderStatus)
	s.paymentStatus = cmp.Or(shown.PaymentStatus, s.paymentStatus)
	return result{OK: true, Found: shown.Found, Policy: shown.Policy}
}

// ask sends a question to the customer of a generated case.
func (s *state) ask(args desk.Args) result {
	message := args.Text("message")
	switch {
	case !s.workflow.Rules.AsksByTool:
		s.fine(desk.AskCustomer, wrongPenalty, "not a tool of this task")
		return newFailure("%s isn't a tool of this task: use %s", desk.AskCustomer, scenarios.RespondUser)
	case message == "":
		s.fine(desk.AskCustomer, wrongPenalty, "message is missing")
		return newFailure("message is missing")
	}
	if i := s.question(message); i >= 0 {
		s.satisfy(i)
		return result{OK: true, Sent: message, Answer: s.workflow.Steps[i].Answer}
	}
	s.excess(desk.AskCustomer, "a needless question")
	for _, a := range s.workflow.Answers {
		if episode.HasQuestionAbout(message, a.About, s.workflow.AskWords) {
			return result{OK: true, Sent: message, Answer: a.Answer}
		}
	}
	return result{OK: true, Sent: message, Answer: s.workflow.Unasked}
}
