package audit

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/csenv/csenv/envserver/episode"
	"github.com/csenv/csenv/envserver/facts"
	"github.com/csenv/csenv/envserver/policy"
	"github.com/csenv/csenv/envserver/workflow"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/words"
)

// trainSplit is the split of the scenarios that an agent may have been trained on.
const trainSplit = "public-train"

const (
	// caseStride is the stride through the held-out cases that are attacked, and caseMemories the
	// number of instances of each training case that the attacker knows.
	caseStride   = 3
	caseMemories = 2
	// testSplit is that of held-out cases.
	testSplit = "public-test"
)

// caseAttack plays a held-out case without applying the policy.
type caseAttack struct {
	name  string
	limit Limit
	plan  func(w *scenarios.Workflow, known []*caseMemory) []map[string]any
}

func caseAttacks() []caseAttack {
	return []caseAttack{
		{"case, nearest neighbour", Limit{Figure: wholeEpisode, Bound: 150}, replayNeighbour},
		{"case, look-ups and a refusal", Limit{Figure: highestEpisode, Bound: 120}, refuseCase},
		// The limit is little more than the share of cases in which the hand-over is right.
		{"case, look-ups and a hand-over", Limit{Figure: wholeEpisode, Bound: 200}, handOver},
		{"case, look-ups and every team", Limit{Figure: highestEpisode, Bound: 100}, tryTeams},
		{"case, records under their names", Limit{Figure: wholeEpisode, Bound: 200}, stateRecords},
	}
}

// caseMemory is a case with its gold that an attacker knows.
type caseMemory struct {
	workflow *scenarios.Workflow
	words    map[string]bool
}

func rememberCases(c *scenarios.Catalog) ([]*caseMemory, error) {
	var known []*caseMemory
	for _, s := range c.Cases() {
		if s.Split != trainSplit {
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

// playCases plays the attacks on the held-out cases.
func playCases(c *scenarios.Catalog, reader workflow.Reader) ([]AttackRow, error) {
	known, err := rememberCases(c)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	kind, err := workflow.New(c, reader)
	if err != nil {
		return nil, fmt.Errorf("making the workflow environment: %w", err)
	}
	var rows []AttackRow
	for _, a := range caseAttacks() {
		var total tally
		for i, s := range c.Cases() {
			if s.Split != testSplit || i%caseStride != 0 {
				continue
			}
			w, err := s.Instantiate(int64(i))
			if err != nil {
				return nil, err
			}
			p := player{task: s.Task(), workflow: w, env: kind.New()}
			if err := total.add(p.playAll(a.plan(w, known))); err != nil {
				return nil, fmt.Errorf("playing %q, scenario %s: %w", a.name, s.ID, err)
			}
		}
		if total.episodes == 0 {
			return nil, nil
		}
		rows = append(rows, total.row(a.name, a.limit))
	}
	return rows, nil
}

// playAll plays actions, each again if it fails, to the end of the episode.
func (p *player) playAll(actions []map[string]any) (*episode.Final, error) {
	if err := p.reset(); err != nil {
		return nil, err
	}
	for _, action := range actions {
		final, ok, err := p.send(action)
		if !ok && final == nil && err == nil {
			final, _, err = p.send(action)
		}
		if final != nil || err != nil {
			return final, err
		}
	}
	return &episode.Final{}, nil
}

// replayNeighbour plays the gold of the known case with the most similar message. Its ids, amounts
// and days are replaced by those in the same places of the attacked case's records, which an
// attacker would have to find by look-ups.
func replayNeighbour(w *scenarios.Workflow, known []*caseMemory) []map[string]any {
	own := wordSet(w.Query)
	nearest := slices.MaxFunc(known, func(a, b *caseMemory) int {
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

// refuseCase looks everything up, changes nothing and refuses.
func refuseCase(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	return append(lookUps(w), newAnswer(refusalMessage(w)))
}

// handOver looks everything up, hands the case to the team that takes over most cases, and says so.
func handOver(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	answered := w.Now
	for days := w.Policy.TeamDays; days > 0; {
		answered = answered.AddDate(0, 0, 1)
		if answered.Weekday() != time.Saturday && answered.Weekday() != time.Sunday {
			days--
		}
	}
	says := phrasesIn(w.Language)
	day := expr.Locales[w.Language].Day(answered)
	message := fmt.Sprintf(says.greeting+says.handOver, w.Customer.Name, day)
	return append(lookUps(w), newAction(desk.Escalating, map[string]any{"team": deskTeams()[0]}),
		newAnswer(message, facts.Fact{What: "team", Value: deskTeams()[0]}, facts.Fact{What: "answer_by", Value: day}))
}

// tryTeams looks everything up, tries to hand the case to each team, and refuses.
func tryTeams(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	actions := lookUps(w)
	for _, team := range deskTeams() {
		actions = append(actions, newAction(desk.Escalating, map[string]any{"team": team}))
	}
	return append(actions, newAnswer(refusalMessage(w)))
}

// stateRecords looks everything up, decides nothing, and states the records under their names.
func stateRecords(w *scenarios.Workflow, _ []*caseMemory) []map[string]any {
	locale := expr.Locales[w.Language]
	var stated []facts.Fact
	message := fmt.Sprintf(phrasesIn(w.Language).greeting, w.Customer.Name)
	add := func(what, value string) {
		if value != "" && len(stated) < facts.MaxStated {
			stated = append(stated, facts.Fact{What: what, Value: value})
			message += " " + value + "."
		}
	}
	records := w.Records
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
	return append(lookUps(w), newAnswer(message, stated...))
}
