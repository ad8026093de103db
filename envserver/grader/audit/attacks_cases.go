package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/facts"
	"github.com/csenv/csenv/scenarios/text"
	"github.com/csenv/csenv/scenarios/words"
)

// trainSplit is the split of the scenarios that an agent may have been trained on.
const trainSplit = "public-train"

const (
	// caseStride is the stride through the held-out cases that are attacked, and caseMemories the
	// number of instances of each training case that the attacker knows.
	caseStride   = 3
	caseMemories = 2
	// testSplit is the split of held-out cases.
	testSplit = "public-test"
)

// caseMemory is a case with its gold that an attacker knows.
type caseMemory struct {
	workflow *scenarios.Workflow
	words    map[string]bool
}

func rememberCases(c *scenarios.Catalog) ([]*caseMemory, error) {
	var known []*caseMemory
	for _, s := range c.Cases() {
		if s.Split != trainSplit || s.Talks {
			continue
		}
		for seed := range int64(caseMemories) {
			w, err := s.Instantiate(1000 + seed)
			if err != nil {
				return nil, err
			}
			known = append(known, &caseMemory{w, wordSet(w.Query)})
		}
	}
	return known, nil
}

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range words.SplitText(strings.ToLower(text)) {
		set[w] = true
	}
	return set
}

// jaccardIndex is the Jaccard index of two sets of words.
func jaccardIndex(a, b map[string]bool) float64 {
	common := 0
	for w := range a {
		if b[w] {
			common++
		}
	}
	return float64(common) / float64(max(len(a)+len(b)-common, 1))
}

// replayNeighbour plays the gold of the known case with the most similar message. Its ids, amounts
// and days are replaced by those in the same places of the attacked case's records, which an
// attacker would have to find by look-ups.
func replayNeighbour(p *player) []map[string]any {
	w := p.workflow
	own := wordSet(w.Query)
	nearest := slices.MaxFunc(p.known, func(a, b *caseMemory) int {
		switch x, y := jaccardIndex(own, a.words), jaccardIndex(own, b.words); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	}).workflow
	swap := strings.NewReplacer(replacementPairs(nearest, w)...)
	actions := make([]map[string]any, 0, len(nearest.Steps))
	for _, step := range nearest.Steps {
		payload := policy.BuildPayload(nearest, step)
		for name, value := range payload {
			if stated, ok := value.([]facts.Fact); ok {
				for i := range stated {
					stated[i].Value = swap.Replace(stated[i].Value)
				}
				continue
			}
			payload[name] = swap.Replace(fmt.Sprint(value))
		}
		actions = append(actions, newAction(step.Action, payload))
	}
	return actions
}

// replacementPairs are the texts of one case and those in the same places of another one.
func replacementPairs(from, to *scenarios.Workflow) []string {
	var pairs []string
	add := func(a, b string) {
		if a != "" && b != "" {
			pairs = append(pairs, a, b)
		}
	}
	a, b := from.Records, to.Records
	add(from.Customer.Name, to.Customer.Name)
	add(strings.Fields(from.Customer.Name)[0], strings.Fields(to.Customer.Name)[0])
	for i := range min(len(a.Orders), len(b.Orders)) {
		add(a.Orders[i].ID, b.Orders[i].ID)
		for k := range min(len(a.Orders[i].Items), len(b.Orders[i].Items)) {
			add(a.Orders[i].Items[k].SKU, b.Orders[i].Items[k].SKU)
			add(a.Orders[i].Items[k].Name, b.Orders[i].Items[k].Name)
		}
	}
	for i := range min(len(a.Payments), len(b.Payments)) {
		add(a.Payments[i].ID, b.Payments[i].ID)
	}
	for i := range min(len(a.Shipments), len(b.Shipments)) {
		add(a.Shipments[i].Tracking, b.Shipments[i].Tracking)
		add(a.Shipments[i].Carrier, b.Shipments[i].Carrier)
	}
	theirs, ours := a.Values(), b.Values()
	old, written := expr.Locales[from.Language], expr.Locales[to.Language]
	for i := range min(len(theirs), len(ours)) {
		if theirs[i].Amount != 0 && ours[i].Amount != 0 {
			add(old.Money(int64(theirs[i].Amount)), written.Money(int64(ours[i].Amount)))
			add(theirs[i].Amount.String(), ours[i].Amount.String())
		}
		if !theirs[i].Day.IsZero() && !ours[i].Day.IsZero() {
			add(old.Day(theirs[i].Day), written.Day(ours[i].Day))
		}
	}
	return pairs
}

// lookUps asks what a case requires, and looks everything up that it can need.
func lookUps(p *player) []map[string]any {
	actions := append(p.questions(), newAction(desk.LookUpCustomer, nil))
	for _, o := range p.workflow.Records.Orders {
		for _, tool := range []string{desk.CheckOrder, desk.CheckPayment, desk.CheckShipment} {
			actions = append(actions, newAction(tool, map[string]any{"order_id": o.ID}))
		}
	}
	for _, topic := range desk.ListTopics() {
		actions = append(actions, newAction(desk.LookUpPolicy, map[string]any{"topic": topic}))
	}
	return actions
}

// handOver looks everything up, and hands the case to the team that takes over most cases.
func handOver(p *player) []map[string]any {
	return append(lookUps(p), newAction(desk.Escalating, map[string]any{"team": deskTeams[0]}))
}

// tryTeams looks everything up, and tries to hand the case to each team.
func tryTeams(p *player) []map[string]any {
	actions := lookUps(p)
	for _, team := range deskTeams {
		actions = append(actions, newAction(desk.Escalating, map[string]any{"team": team}))
	}
	return actions
}

// phrases are the sentences of an attack's reply by language: a greeting with the customer's name,
// a refusal, and a hand-over with a day.
var phrases = map[string]struct{ greeting, refusal, handOver string }{
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
}

// deskTeams are the teams that can take a case over, the one that takes most of them first.
var deskTeams = []string{"finance", "logistics", "security", "trust", "privacy"}

func writeGreeting(w *scenarios.Workflow) string {
	return fmt.Sprintf(phrases[w.Language].greeting, w.Customer.Name)
}

func writeRefusal(p *player) (string, []facts.Fact) {
	return writeGreeting(p.workflow) + phrases[p.workflow.Language].refusal, nil
}

// promiseTeam says that the team has taken over, and by when it answers.
func promiseTeam(p *player) (string, []facts.Fact) {
	w := p.workflow
	day := expr.Locales[w.Language].Day(text.AddBusinessDays(w.Now, int(w.Policy.TeamDays)))
	return writeGreeting(w) + fmt.Sprintf(phrases[w.Language].handOver, day),
		[]facts.Fact{{What: "team", Value: deskTeams[0]}, {What: "answer_by", Value: day}}
}

// stateRecords states the records under their names.
func stateRecords(p *player) (string, []facts.Fact) {
	locale := expr.Locales[p.workflow.Language]
	var stated []facts.Fact
	message := writeGreeting(p.workflow)
	add := func(what, value string) {
		if value != "" && len(stated) < facts.MaxStated {
			stated = append(stated, facts.Fact{What: what, Value: value})
			message += " " + value + "."
		}
	}
	records := p.workflow.Records
	for _, s := range records.Shipments {
		add("reference", s.Tracking)
		add("carrier", s.Carrier)
		if !s.Delivered.IsZero() {
			add("delivered_on", locale.Day(s.Delivered))
		}
	}
	for _, p := range records.Payments {
		add("charged_amount", locale.Money(int64(p.Amount)))
	}
	for _, r := range records.Refunds {
		add("given_before", locale.Money(int64(r.Amount)))
	}
	for _, o := range records.Orders {
		add("place", o.Address)
	}
	return message, stated
}
