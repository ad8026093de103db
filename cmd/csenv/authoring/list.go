package authoring

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/scenarios"
)

// filter selects scenarios by the values of their fields. An empty list matches every value.
type filter struct {
	kinds, categories, splits, languages []string
}

func newListCommand() *cobra.Command {
	var only filter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tickets and workflows",
		Args:  cobra.NoArgs,
	}
	cli.Help(cmd, "list")
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "table", "json", "csv")
	f := cmd.Flags()
	f.StringSliceVar(&only.kinds, "kind", nil, "only this `kind`: ticket, workflow, queue, case; tickets and "+
		"workflows by default")
	f.StringSliceVar(&only.categories, "category", nil, "only this `category`: billing, shipping, technical, general, "+
		"or the family of a case")
	f.StringSliceVar(&only.splits, "split", nil, "only this `split`: "+strings.Join(scenarios.Splits(), ", "))
	f.StringSliceVar(&only.languages, "language", nil, "only this `language`: en, de, es, fr")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := cli.LoadCatalog(*packs)
		if err == nil {
			err = only.validate(c)
		}
		if err != nil {
			return err
		}
		all, err := profiles(cmd.Context(), c)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(all, func(p profile) bool { return !only.keeps(p) })
		return output.Print(cmd.OutOrStdout(), profileList(kept))
	}
	return cmd
}

// validate rejects unknown values, because an empty list would look like a valid answer.
func (f *filter) validate(c *scenarios.Catalog) error {
	categories := scenarios.Categories()
	if set := c.CaseSet(); set != nil {
		categories = append(categories, set.Families()...)
	}
	for _, c := range []struct {
		flag            string
		values, allowed []string
	}{
		{"kind", f.kinds, []string{"ticket", "workflow", "queue", "case"}},
		{"category", f.categories, categories},
		{"split", f.splits, scenarios.Splits()},
		{"language", f.languages, []string{"en", "de", "es", "fr", "mul"}},
	} {
		for _, v := range c.values {
			if !slices.Contains(c.allowed, strings.ToLower(v)) {
				return fmt.Errorf("--%s is %q: choose one of %s", c.flag, v, strings.Join(c.allowed, ", "))
			}
		}
	}
	return nil
}

func (f *filter) keeps(p profile) bool {
	if len(f.kinds) == 0 && (p.Kind == kindQueue || p.Kind == kindCase && len(f.categories) == 0) {
		return false // queues are made of the tickets that are listed, and cases are many
	}
	return cli.Among(f.kinds, p.Kind) && cli.Among(f.categories, p.Category) && cli.Among(f.splits, p.Split) &&
		cli.Among(f.languages, p.Language)
}

func profileList(all []profile) view.Result {
	header := []string{"id", "kind", "category", "priority", "escalate", "level", "difficulty", "split", "language"}
	rows := view.Each(all, func(p profile) []string {
		return []string{p.ID, p.Kind, view.OrDash(p.Category), view.OrDash(p.Priority), view.YesNo(p.Escalation),
			p.AccountLevel, p.Difficulty, p.Split, p.Language}
	})
	return view.Result{Value: all, Header: header, Rows: rows,
		Document: view.Document{Sections: []view.Section{{Header: header, Rows: rows}}}}
}
