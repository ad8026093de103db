package authoring

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/envserver/env/queue"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
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
	cli.SetHelp(cmd, "list")
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "table", "json", "csv")
	f := cmd.Flags()
	f.StringSliceVar(&only.kinds, "kind", nil, "only this `kind`: ticket, workflow, queue, case; tickets and "+
		"workflows by default")
	f.StringSliceVar(&only.categories, "category", nil, "only this `category`: billing, shipping, technical, general, "+
		"or the family of a case")
	f.StringSliceVar(&only.splits, "split", nil, "only this `split`: "+strings.Join(scenarios.Splits, ", "))
	f.StringSliceVar(&only.languages, "language", nil, "only this `language`: en, de, es, fr")
	limit := view.LimitFlag(f, "scenarios")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := cli.LoadCatalog(*packs)
		if err == nil {
			err = only.validate(c)
		}
		if err != nil {
			return err
		}
		all, err := listProfiles(cmd.Context(), c)
		if err != nil {
			return err
		}
		kept := slices.DeleteFunc(all, func(p profile) bool { return !only.keeps(p) })
		return output.Print(cmd.OutOrStdout(), profileList(view.TakeFirst(kept, *limit)))
	}
	return cmd
}

// validate rejects unknown values, because an empty list would look like a valid answer.
func (f *filter) validate(c *scenarios.Catalog) error {
	categories := scenarios.Categories
	if set := c.CaseSet(); set != nil {
		categories = append(categories, set.Families()...)
	}
	for _, c := range []struct {
		flag            string
		values, allowed []string
	}{
		{"kind", f.kinds, []string{"ticket", "workflow", "queue", "case"}},
		{"category", f.categories, categories},
		{"split", f.splits, scenarios.Splits},
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
	return cli.IsAmong(f.kinds, p.Kind) && cli.IsAmong(f.categories, p.Category) && cli.IsAmong(f.splits, p.Split) &&
		cli.IsAmong(f.languages, p.Language)
}

// profile is the summary of a scenario at seed 0.
type profile struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Version      int    `json:"version"`
	Category     string `json:"category"`
	Priority     string `json:"priority"`
	Escalation   bool   `json:"escalation"`
	AccountLevel string `json:"account_level"`
	Tone         string `json:"tone"`
	Cue          string `json:"cue"`
	Difficulty   string `json:"difficulty"`
	Split        string `json:"split"`
	Language     string `json:"language"`
	UserSim      bool   `json:"user_sim"`
	Title        string `json:"title"`
	Pack         string `json:"pack"`
	File         string `json:"file"`
}

// The kinds of scenarios.
const (
	kindTicket   = "Ticket"
	kindWorkflow = "Workflow"
	kindQueue    = "Queue"
	kindCase     = "Case"
)

// listProfiles lists the tickets, the workflows and the queues. A workflow has no category,
// priority or tone; its difficulty is its class, and it escalates where a required step does.
func listProfiles(ctx context.Context, c *scenarios.Catalog) ([]profile, error) {
	out := make([]profile, 0, len(c.Tickets())+len(c.Workflows()))
	for _, s := range c.Tickets() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t, err := s.Instantiate(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		out = append(out, profile{
			ID: s.ID, Kind: kindTicket, Version: s.Version, Category: t.Gold.Category, Priority: t.Gold.Priority,
			Escalation: t.Gold.Escalate, AccountLevel: t.Customer.AccountLevel,
			Tone: t.Tone, Cue: s.Cue, Difficulty: s.Difficulty, Split: s.Split, Language: s.Language,
			UserSim: t.UserSim != nil, Title: t.Subject, Pack: s.Pack.Name, File: s.File,
		})
	}
	for _, s := range c.Workflows() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		w, err := s.Instantiate(0)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", s.ID, err)
		}
		p := profile{
			ID: s.ID, Kind: kindWorkflow, Version: s.Version, AccountLevel: w.Customer.AccountLevel,
			Difficulty: s.Class, Split: s.Split, Language: s.Language,
			Title: w.Query, Pack: s.Pack.Name, File: s.File,
		}
		for _, step := range w.Steps {
			p.Escalation = p.Escalation || step.Action == desk.Escalating
		}
		out = append(out, p)
	}
	for _, s := range c.Cases() {
		out = append(out, profile{ID: s.ID, Kind: kindCase, Version: s.Version, Category: s.Category(),
			Difficulty: s.Class, Split: s.Split, Language: s.Language, Title: strings.Join(s.Modifiers, ", "),
			Pack: s.Pack.Name, File: s.File})
	}
	for _, q := range queue.ComposeQueues(c) {
		out = append(out, profile{ID: q.ID, Kind: kindQueue, Split: q.Split, Language: q.Language,
			Category: "queue", Title: strings.Join(q.Tickets[:], ", ")})
	}
	return out, nil
}

func profileList(all []profile) view.Result {
	header := []string{"id", "kind", "category", "priority", "escalate", "level", "difficulty", "split", "language"}
	rows := view.MapItems(all, func(p profile) []string {
		return []string{p.ID, p.Kind, view.OrDash(p.Category), view.OrDash(p.Priority), view.YesNo(p.Escalation),
			p.AccountLevel, p.Difficulty, p.Split, p.Language}
	})
	return view.Result{Value: all, Header: header, Rows: rows,
		Document: view.Document{Sections: []view.Section{{Header: header, Rows: rows}}}}
}
