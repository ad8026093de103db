package figures

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/irt"
	"github.com/csenv/csenv/envserver/score/stats"
	"github.com/csenv/csenv/envserver/web/chart"
)

// itemTable has the parameters of scenarios, the hardest first, and the abilities of runs, the best
// first. Figures are decimals, as in a run's status.
type itemTable struct {
	Model        irt.Model    `json:"model"`
	Notes        []string     `json:"notes,omitempty"`
	Runs         []abilityRow `json:"runs"`
	Difficulties []itemGroup  `json:"difficulties,omitempty"`
	Items        []itemRow    `json:"items"`
}

// itemRow has the parameters of a scenario in a task.
type itemRow struct {
	Task       string `json:"task"`
	Scenario   string `json:"scenario"`
	Category   string `json:"category,omitempty"`
	Difficulty string `json:"difficulty,omitempty"` // as declared
	Responses  int64  `json:"responses"`
	Passes     int64  `json:"passes"`
	PassRate   string `json:"passRate"`
	B          string `json:"b"`
	BError     string `json:"bStandardError"`
	A          string `json:"a"`
	AError     string `json:"aStandardError"`
	// Extreme is set if all responses passed or none did. The figures then rest on the prior.
	Extreme bool `json:"extreme"`
}

// abilityRow has the ability of a run.
type abilityRow struct {
	Run       string `json:"run"`
	Agent     string `json:"agent"`
	Responses int64  `json:"responses"`
	PassRate  string `json:"passRate"`
	Ability   string `json:"ability"`
	Error     string `json:"standardError"`
}

// itemGroup has the mean over the scenarios of a declared difficulty.
type itemGroup struct {
	Difficulty string `json:"difficulty"`
	Scenarios  int    `json:"scenarios"`
	PassRate   string `json:"passRate"`
	B          string `json:"b"`
}

// decimal writes a figure as a run's status does.
func decimal(x float64) string { return score.Decimal(int64(math.Round(x * score.One))) }

// short writes a figure with two places, which is less than any of its errors.
func short(figure string) string {
	return strconv.FormatFloat(math.Round(chart.Decimal(figure)*100)/100+0, 'f', 2, 64) // + 0 takes the sign from -0
}

func passRate(c irt.Count) string { return score.Decimal(stats.Mean(c.Passed*score.One, c.Trials)) }

func newItemRow(named score.ScenarioScore, item irt.Item) itemRow {
	c, a, b := item.Responses, item.Discrimination, item.Difficulty
	return itemRow{
		Task: named.Task, Scenario: named.Scenario, Category: named.Category, Difficulty: named.Difficulty,
		Responses: c.Trials, Passes: c.Passed, PassRate: passRate(c), B: decimal(b.Estimate), BError: decimal(b.Error),
		A: decimal(a.Estimate), AError: decimal(a.Error), Extreme: c.Extreme(),
	}
}

func newAbilityRow(run *source.LoadedRun, person irt.Person) abilityRow {
	return abilityRow{
		Run: run.Name, Agent: source.AgentName(run.EvaluationRun), Responses: person.Responses.Trials,
		PassRate: passRate(person.Responses), Ability: decimal(person.Ability.Estimate),
		Error: decimal(person.Ability.Error),
	}
}

// groupItems averages over the scenarios of each declared difficulty, the easiest first.
func groupItems(named []score.ScenarioScore, items []irt.Item) []itemGroup {
	type sum struct {
		count irt.Count
		b     float64
		n     int
	}
	sums := map[string]sum{}
	for i, item := range items {
		if label := named[i].Difficulty; label != "" {
			s := sums[label]
			s.count.Passed += item.Responses.Passed
			s.count.Trials += item.Responses.Trials
			s.b += item.Difficulty.Estimate
			s.n++
			sums[label] = s
		}
	}
	labels := view.SortedKeys(sums)
	known := []string{"easy", "medium", "hard"}
	slices.SortStableFunc(labels, func(a, b string) int {
		return cmp.Compare(slices.Index(known, a), slices.Index(known, b))
	})
	return view.Each(labels, func(label string) itemGroup {
		s := sums[label]
		return itemGroup{label, s.n, passRate(s.count), decimal(s.b / float64(s.n))}
	})
}

// enough is the number of runs below which a note warns. With 30 persons a difficulty is within one
// logit with 95 % confidence (Linacre, Rasch Measurement Transactions 7:4, 1994); a discrimination
// of each item takes about 200 (Drasgow, Applied Psychological Measurement 13, 1989).
var enough = map[irt.Model]int{irt.OneParameter: 30, irt.TwoParameter: 200}

// limits notes what the estimates don't rest on responses for.
func (t itemTable) limits() []string {
	var notes []string
	if len(t.Runs) < enough[t.Model] {
		meaning := "difficulties say little more than the pass rates"
		if t.Model == irt.TwoParameter {
			meaning = "discriminations rest mostly on their prior, 1 within a factor of 2.7; --model 1pl needs " +
				"fewer runs"
		}
		notes = append(notes, fmt.Sprintf("With fewer than about %d runs, %s.", enough[t.Model], meaning))
	}
	extreme := 0
	for _, item := range t.Items {
		if item.Extreme {
			extreme++
		}
	}
	if extreme > 0 {
		notes = append(notes, fmt.Sprintf("%s passed always or never: the prior bounds their figures.",
			view.Count(extreme, "scenario")))
	}
	return notes
}

// summary describes the fit in a few sentences.
func (t itemTable) summary() string {
	text := fmt.Sprintf("Model %s: %s, %s.", t.Model, view.Count(len(t.Items), "scenario"),
		view.Count(len(t.Runs), "run"))
	if t.Model == irt.OneParameter {
		text += fmt.Sprintf(" Common discrimination %s ± %s.", short(t.Items[0].A), short(t.Items[0].AError))
	}
	return strings.Join(append([]string{text}, t.Notes...), " ")
}

func (t itemTable) result(everything bool) view.Result {
	abilities := view.Section{Heading: "Abilities of the runs",
		Header: []string{"run", "agent", "responses", "pass rate", "ability", "±"},
		Rows: view.Each(t.Runs, func(r abilityRow) []string {
			return []string{r.Run, r.Agent, strconv.FormatInt(r.Responses, 10), r.PassRate, short(r.Ability),
				short(r.Error)}
		})}
	declared := view.Section{Heading: "By declared difficulty",
		Header: []string{"difficulty", "scenarios", "pass rate", "mean b"},
		Rows: view.Each(t.Difficulties, func(g itemGroup) []string {
			return []string{g.Difficulty, strconv.Itoa(g.Scenarios), g.PassRate, short(g.B)}
		})}
	items := t.section()
	if !everything {
		items = shortened(items)
	}
	return view.Result{Value: t, Header: []string{"task", "scenario", "category", "difficulty", "responses", "passes",
		"pass_rate", "b", "b_standard_error", "a", "a_standard_error", "extreme"},
		Rows: view.Each(t.Items, func(r itemRow) []string {
			return []string{r.Task, r.Scenario, r.Category, r.Difficulty, strconv.FormatInt(r.Responses, 10),
				strconv.FormatInt(r.Passes, 10), r.PassRate, r.B, r.BError, r.A, r.AError,
				strconv.FormatBool(r.Extreme)}
		}),
		Document: view.Document{Title: t.summary(), Sections: []view.Section{abilities, declared, items}}}
}

// section lists the scenarios. A common discrimination is in the title.
func (t itemTable) section() view.Section {
	s := view.Section{Heading: "Scenarios, hardest first; * passed always or never",
		Header: []string{"task", "scenario", "category", "declared", "n", "pass rate", "b", "±"}}
	if t.Model == irt.TwoParameter {
		s.Header = append(s.Header, "a", "±")
	}
	for _, r := range t.Items {
		rate := r.PassRate
		if r.Extreme {
			rate += "*"
		}
		row := []string{r.Task, r.Scenario, view.OrDash(r.Category), view.OrDash(r.Difficulty),
			strconv.FormatInt(r.Responses, 10), rate, short(r.B), short(r.BError)}
		if t.Model == irt.TwoParameter {
			row = append(row, short(r.A), short(r.AError))
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}
