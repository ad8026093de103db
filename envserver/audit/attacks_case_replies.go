package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// lookUps are all look-ups that a case can need, and the questions that it requires.
func lookUps(w *scenarios.Workflow) []map[string]any {
	var actions []map[string]any
	for _, step := range w.Steps {
		if step.Ask {
			actions = append(actions, call(step.Action, policy.Payload(w, step)))
		}
	}
	actions = append(actions, call(desk.LookUpCustomer, nil))
	for _, o := range w.Desk.Records.Orders {
		for _, tool := range []string{desk.CheckOrder, desk.CheckPayment, desk.CheckShipment} {
			actions = append(actions, call(tool, map[string]any{"order_id": o.ID}))
		}
	}
	for _, topic := range desk.Topics() {
		actions = append(actions, call(desk.LookUpPolicy, map[string]any{"topic": topic}))
	}
	return actions
}

// phrases are the sentences of an attack's reply in one language: a greeting with the customer's
// name, one with an amount, one with a day, a refusal, a hand-over with a day, and "or".
type phrases struct{ greeting, amount, day, refusal, handOver, or string }

func phrasesIn(language string) phrases {
	return map[string]phrases{
		"en": {"Hello %s, thank you for your message.", " The amount is %s.", " The day is %s.",
			" I'm sorry, but we can't do this for you.",
			" Our finance team takes care of it and answers by %s.", ", or "},
		"de": {"Guten Tag %s, vielen Dank für Ihre Nachricht.", " Der Betrag ist %s.", " Der Tag ist der %s.",
			" Das können wir leider nicht für Sie tun.",
			" Unser Finanzteam kümmert sich darum und antwortet bis zum %s.", ", oder "},
		"es": {"Hola, %s, gracias por su mensaje.", " El importe es de %s.", " El día es el %s.",
			" Lo sentimos, pero no podemos hacerlo.",
			" Nuestro equipo de finanzas se ocupa de ello y responderá a más tardar el %s.", ", o "},
		"fr": {"Bonjour %s, merci pour votre message.", " Le montant est de %s.", " Le jour est le %s.",
			" Nous sommes désolés, mais nous ne pouvons pas le faire.",
			" Notre service financier s'en occupe et vous répondra le %s au plus tard.", ", ou "},
	}[language]
}

// dumpCase looks everything up and lists every amount and day.
func dumpCase(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	says, locale := phrasesIn(w.Language), expr.Locales()[w.Language]
	var b strings.Builder
	fmt.Fprintf(&b, says.greeting, w.Customer.Name)
	for _, v := range w.Desk.Records.Values() {
		if v.Amount != 0 {
			fmt.Fprintf(&b, says.amount, locale.Money(int64(v.Amount)))
		} else {
			fmt.Fprintf(&b, says.day, locale.Day(v.Day))
		}
	}
	return append(lookUps(w), answer(b.String()))
}

// echoPolicy looks everything up and answers with the rules that share most words with the message,
// with fillers.
func echoPolicy(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	own := wordSet(w.Query)
	rules := make([]string, 0, 64)
	for _, topic := range desk.Topics() {
		rules = append(rules, strings.Split(w.Desk.Policy.Section(topic), "\n- ")[1:]...)
	}
	slices.SortStableFunc(rules, func(a, b string) int {
		switch x, y := similarity(own, wordSet(a)), similarity(own, wordSet(b)); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	message := []string{fmt.Sprintf(phrasesIn(w.Language).greeting, w.Customer.Name)}
	for i, word := range strings.Fields(strings.Join(rules[:min(echoedRules, len(rules))], " ")) {
		message = append(message, word)
		if (i+1)%fillerEvery == 0 {
			message = append(message, fillers[i/fillerEvery%len(fillers)])
		}
	}
	return append(lookUps(w), answer(strings.Join(message, " ")))
}

// refuseCase looks everything up, changes nothing and refuses.
func refuseCase(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	return append(lookUps(w), answer(refusal(w)))
}

func refusal(w *scenarios.Workflow) string {
	says := phrasesIn(w.Language)
	return fmt.Sprintf(says.greeting, w.Customer.Name) + says.refusal
}

// handOver looks everything up, hands the case to the team that takes over most cases, and says so.
func handOver(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	answered := w.Now
	for days := w.Desk.Policy.TeamDays; days > 0; {
		answered = answered.AddDate(0, 0, 1)
		if answered.Weekday() != time.Saturday && answered.Weekday() != time.Sunday {
			days--
		}
	}
	says := phrasesIn(w.Language)
	message := fmt.Sprintf(says.greeting+says.handOver, w.Customer.Name, expr.Locales()[w.Language].Day(answered))
	return append(lookUps(w), call(desk.Escalating, map[string]any{"team": deskTeams()[0]}), answer(message))
}

// deskTeams are the teams that can take a case over, the one that takes most of them first.
func deskTeams() []string { return []string{"finance", "logistics", "security", "trust", "privacy"} }

// tryTeams looks everything up, tries to hand the case to each team, and refuses.
func tryTeams(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	actions := lookUps(w)
	for _, team := range deskTeams() {
		actions = append(actions, call(desk.Escalating, map[string]any{"team": team}))
	}
	return append(actions, answer(refusal(w)))
}

// listValues takes the required steps and answers with the required values, without sentences.
func listValues(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	return withReply(w, fmt.Sprintf(phrasesIn(w.Language).greeting, w.Customer.Name)+listOf(w.Facts))
}

// enumerateCase takes the required steps and answers rightly, with each value followed by values
// of known cases.
func enumerateCase(w *scenarios.Workflow, known []*caseMemory) []map[string]any {
	reply := w.References.Good[0]
	for _, f := range w.Facts {
		list := []string{f.Value}
		for _, m := range known {
			for _, other := range m.workflow.Facts {
				if m.workflow.Language == w.Language && other.Slot == f.Slot && !slices.Contains(list, other.Value) &&
					len(list) <= maxAlternatives {
					list = append(list, other.Value)
				}
			}
		}
		reply = strings.Replace(reply, f.Value, strings.Join(list, phrasesIn(w.Language).or), 1)
	}
	return withReply(w, reply)
}

// withReply takes the required steps, with another reply.
func withReply(w *scenarios.Workflow, message string) []map[string]any {
	var actions []map[string]any
	for _, step := range w.Steps {
		if !step.Terminal {
			actions = append(actions, call(step.Action, policy.Payload(w, step)))
		}
	}
	return append(actions, answer(message))
}

func answer(message string) map[string]any {
	return call(scenarios.RespondUser, map[string]any{"message": message})
}
