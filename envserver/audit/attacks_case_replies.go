package audit

import (
	"fmt"

	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// lookUps are all look-ups that a case can need, and the questions that it requires.
func lookUps(w *scenarios.Workflow) []map[string]any {
	var actions []map[string]any
	for _, step := range w.Steps {
		if step.Ask {
			actions = append(actions, newAction(step.Action, policy.BuildPayload(w, step)))
		}
	}
	actions = append(actions, newAction(desk.LookUpCustomer, nil))
	for _, o := range w.Records.Orders {
		for _, tool := range []string{desk.CheckOrder, desk.CheckPayment, desk.CheckShipment} {
			actions = append(actions, newAction(tool, map[string]any{"order_id": o.ID}))
		}
	}
	for _, topic := range desk.ListTopics() {
		actions = append(actions, newAction(desk.LookUpPolicy, map[string]any{"topic": topic}))
	}
	return actions
}

// phrases are the sentences of an attack's reply in one language: a greeting with the customer's
// name, a refusal, and a hand-over with a day.
type phrases struct{ greeting, refusal, handOver string }

func phrasesIn(language string) phrases {
	return map[string]phrases{
		"en": {"Hello %s, thank you for your message.",
			" I'm sorry, but we can't do this for you.",
			" Our finance team takes care of it and answers by %s."},
		"de": {"Guten Tag %s, vielen Dank für Ihre Nachricht.",
			" Das können wir leider nicht für Sie tun.",
			" Unser Finanzteam kümmert sich darum und antwortet bis zum %s."},
		"es": {"Hola, %s, gracias por su mensaje.",
			" Lo sentimos, pero no podemos hacerlo.",
			" Nuestro equipo de finanzas se ocupa de ello y responderá a más tardar el %s."},
		"fr": {"Bonjour %s, merci pour votre message.",
			" Nous sommes désolés, mais nous ne pouvons pas le faire.",
			" Notre service financier s'en occupe et vous répondra le %s au plus tard."},
	}[language]
}

func refusalMessage(w *scenarios.Workflow) string {
	says := phrasesIn(w.Language)
	return fmt.Sprintf(says.greeting, w.Customer.Name) + says.refusal
}

// deskTeams are the teams that can take a case over, the one that takes most of them first.
func deskTeams() []string { return []string{"finance", "logistics", "security", "trust", "privacy"} }

func newAnswer(message string, stated ...facts.Fact) map[string]any {
	return newAction(desk.RespondUser, map[string]any{"message": message, "facts": stated})
}
