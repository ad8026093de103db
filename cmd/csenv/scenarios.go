package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/csenv/csenv/scenarios"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newScenariosCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "scenarios",
		Aliases: []string{"scenario"},
		Short:   "List, show and lint tickets and workflows",
		Long: `List, show and lint tickets and workflows: the built-in ones and those of packs of your own.

How to write scenarios is in docs/scenarios.md.`,
		SuggestionsMinimumDistance: 2,
		Args:                       knownCommand, RunE: func(cmd *cobra.Command,
			_ []string) error {
			return cmd.Help()
		},
	}
	cmd.AddCommand(newListCommand(), newShowCommand(), newLintCommand())
	return cmd
}

// knownCommand refuses a misspelt command, which cobra alone does for the root only.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see `" + cmd.CommandPath() + " --help`"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + near[0] + "?"
	}
	return fmt.Errorf("%s has no command %q: %s", cmd.CommandPath(), args[0], hint)
}

func addPackFlag(f *pflag.FlagSet) *[]string {
	return f.StringArray("pack", nil, "`folder` with a pack of scenarios to load as well; may be repeated")
}

// loadCatalog loads the built-in pack and some folders. A folder that is the built-in pack itself,
// as in a checkout of csenv, takes its place.
func loadCatalog(folders []string) (*scenarios.Catalog, error) {
	public, err := scenarios.Public()
	if err != nil {
		return nil, err
	}
	base, packs := "", make([]string, 0, len(folders))
	for _, folder := range folders {
		if base == "" && scenarios.FolderName(folder) == public.Packs()[0].Name {
			base = folder
			continue
		}
		packs = append(packs, folder)
	}
	return scenarios.LoadFolders(base, packs...)
}

// profile is a scenario at a glance, at seed 0.
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
)

// profiles lists the tickets and then the workflows. A workflow has no category, priority or tone;
// its difficulty is its class, and it escalates where a required step does.
func profiles(ctx context.Context, c *scenarios.Catalog) ([]profile, error) {
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
			p.Escalation = p.Escalation || step.Action == scenarios.EscalateIssue
		}
		out = append(out, p)
	}
	return out, nil
}

// sortedKeys are a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
