package figures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/score/irt"
	"github.com/csenv/csenv/envserver/web/chart"
)

// itemFilter selects scenarios.
type itemFilter struct{ tasks, categories []string }

// NewItemsCommand returns the command that estimates the difficulty of scenarios.
func NewItemsCommand() *cobra.Command {
	var from source.Flags
	var only itemFilter
	var selector, model string
	var everything, force bool
	cmd := &cobra.Command{
		Use:   "items [RUN...]",
		Short: "Estimate the difficulty of scenarios and the ability of runs by item response theory",
	}
	cli.Help(cmd, "items")
	from.Add(cmd)
	output := view.FormatFlag(cmd.Flags(), "table", "json", "yaml", "csv", "markdown")
	f := cmd.Flags()
	f.StringVarP(&selector, "selector", "l", "", "only runs with these `labels`, such as team=support")
	f.StringVar(&model, "model", string(irt.OneParameter), "1pl: all scenarios have one discrimination; 2pl: each "+
		"has its own, which takes hundreds of runs")
	f.StringSliceVar(&only.tasks, "task", nil, "only scenarios of this `task`; may be repeated")
	f.StringSliceVar(&only.categories, "category", nil, "only scenarios of this `category`, or the family of a case; "+
		"may be repeated")
	f.BoolVar(&everything, "all", false, "list all scenarios")
	f.BoolVar(&force, "force", false, "use runs even if their scenarios or graders differ")
	cli.Complete(cmd, "model", func() []string { return []string{string(irt.OneParameter), string(irt.TwoParameter)} })
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		runs, err := from.All(cmd.Context(), selector, names)
		if err != nil {
			return err
		}
		played, err := newResponses(cmd.Context(), runs, only, force)
		if err != nil {
			return err
		}
		if len(played.left) > 0 {
			view.Paragraph(cmd.ErrOrStderr(), "", "left out, without an episode of these scenarios: "+
				strings.Join(played.left, ", "))
		}
		items, err := played.estimate(irt.Model(model))
		if err != nil {
			return err
		}
		return output.Print(cmd.OutOrStdout(), items.result(everything))
	}
	return cmd
}

// responses are the passed and played episodes of runs by scenario. Errored episodes are not among
// them.
type responses struct {
	runs []*source.LoadedRun
	// left are the names of runs that played none of the scenarios.
	left []string
	// items have the names of the scenarios, and no scores.
	items  []score.ScenarioScore
	counts [][]irt.Count // by run and item
}

// newResponses reads the scores of runs. The result doesn't depend on the order of the runs.
func newResponses(ctx context.Context, runs []*source.LoadedRun, only itemFilter, force bool) (*responses, error) {
	runs = slices.SortedFunc(slices.Values(runs), func(a, b *source.LoadedRun) int {
		return cmp.Compare(a.Name, b.Name)
	})
	if !force {
		for _, r := range runs[1:] {
			if err := MayCompare(runs[0], r); err != nil {
				return nil, fmt.Errorf("%s and %s: %w: name runs that are comparable, or use all with --force",
					runs[0].Name, r.Name, err)
			}
		}
	}
	p := &responses{}
	tasks, categories, scores := map[string]bool{}, map[string]bool{}, [][]score.ScenarioScore{}
	for _, r := range runs {
		rows, err := r.Scores(ctx)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			tasks[strings.ToLower(row.Task)], categories[strings.ToLower(row.Category)] = true, true
		}
		rows = slices.DeleteFunc(rows, func(row score.ScenarioScore) bool {
			return row.Episodes == 0 || !cli.Among(only.tasks, row.Task) || !cli.Among(only.categories, row.Category)
		})
		if len(rows) == 0 {
			p.left = append(p.left, r.Name)
			continue
		}
		p.runs, scores = append(p.runs, r), append(scores, rows)
	}
	if err := errors.Join(cli.Unplayed("the runs have", "task", only.tasks, tasks),
		cli.Unplayed("the runs have", "category", only.categories, categories)); err != nil {
		return nil, err
	}
	if len(p.runs) < irt.MinPersons {
		return nil, fmt.Errorf("item parameters need at least %d runs that played the scenarios, each of another "+
			"agent, not %d: name more runs, or evaluate more agents with `csenv eval --agent` or `--model`",
			irt.MinPersons, len(p.runs))
	}
	p.count(scores)
	return p, nil
}

// count fills the items and counts from the scores of each run.
func (p *responses) count(scores [][]score.ScenarioScore) {
	type name struct{ task, scenario string }
	places := map[name]int{}
	for _, row := range slices.Concat(scores...) {
		if _, known := places[name{row.Task, row.Scenario}]; !known {
			places[name{row.Task, row.Scenario}] = len(p.items)
			row.Episodes, row.Passes, row.Mean = 0, 0, 0
			p.items = append(p.items, row)
		}
	}
	p.counts = make([][]irt.Count, len(scores))
	for r, rows := range scores {
		p.counts[r] = make([]irt.Count, len(p.items))
		for _, row := range rows {
			p.counts[r][places[name{row.Task, row.Scenario}]] = irt.Count{Passed: row.Passes, Trials: row.Episodes}
		}
	}
}

// estimate fits the model.
func (p *responses) estimate(model irt.Model) (itemTable, error) {
	fit, err := irt.Estimate(model, p.counts)
	if err != nil {
		return itemTable{}, err
	}
	t := itemTable{Model: model, Items: make([]itemRow, len(p.items)), Runs: make([]abilityRow, len(p.runs))}
	for i, item := range fit.Items {
		t.Items[i] = newItemRow(p.items[i], item)
	}
	for r, person := range fit.Persons {
		t.Runs[r] = newAbilityRow(p.runs[r], person)
	}
	slices.SortStableFunc(t.Items, func(a, b itemRow) int {
		return cmp.Or(cmp.Compare(chart.Decimal(b.B), chart.Decimal(a.B)), cmp.Compare(a.Task, b.Task),
			cmp.Compare(a.Scenario, b.Scenario))
	})
	slices.SortStableFunc(t.Runs, func(a, b abilityRow) int {
		return cmp.Compare(chart.Decimal(b.Ability), chart.Decimal(a.Ability))
	})
	t.Difficulties, t.Notes = groupItems(p.items, fit.Items), append(p.repeated(), t.limits()...)
	return t, nil
}

// repeated notes the runs that are of one agent, whose responses aren't independent.
func (p *responses) repeated() []string {
	byAgent := map[string][]string{}
	for _, r := range p.runs {
		digest := ptr.Deref(r.Status.Provenance, v1alpha1.Provenance{}).AgentDigest
		byAgent[digest] = append(byAgent[digest], r.Name)
	}
	var notes []string
	for _, digest := range view.SortedKeys(byAgent) {
		if names := byAgent[digest]; digest != "" && len(names) > 1 {
			notes = append(notes, "The same agent played "+strings.Join(names, ", ")+": standard errors are too "+
				"small, because each run counts as another agent.")
		}
	}
	return notes
}
