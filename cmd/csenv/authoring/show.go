package authoring

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/scenarios"
)

func newShowCommand() *cobra.Command {
	var seed int64
	var served bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one scenario: the ticket or workflow that the agent gets, and its gold answer",
		Args:  cli.RequireArguments("ID"),
	}
	cli.SetHelp(cmd, "show")
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "yaml", "json")
	cmd.Flags().Int64Var(&seed, "seed", 0, "seed that draws the scenario's values, such as that of an "+
		"episode, which its transcript names; 0 draws the canonical branches")
	cmd.Flags().BoolVar(&served, "served", false, "show only the part that the agent is served")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		drawn, err := instantiateScenario(c, args[0], seed)
		if err != nil {
			return err
		}
		return output.Encode(cmd.OutOrStdout(), drawn.encode(!served))
	}
	return cmd
}

type object = view.Object

// instance is a ticket or a workflow with the values that a seed drew.
type instance interface {
	// encode returns what the agent is served, and the gold answer if it is wanted.
	encode(gold bool) object
}

// instantiateScenario draws the scenario with an id.
func instantiateScenario(c *scenarios.Catalog, id string, seed int64) (instance, error) {
	var drawn instance
	var err error
	if s, ok := c.Ticket(id); ok {
		t := ticket{scenario: s}
		t.Ticket, err = s.Instantiate(seed)
		drawn = t
	} else if s, ok := c.Workflow(id); ok {
		f := workflow{scenario: s}
		f.Workflow, err = s.Instantiate(seed)
		drawn = f
	} else if q, ok := queueOf(c, id); ok {
		drawn, err = newQueue(c, q, seed)
	} else {
		hint := "list them with `csenv scenarios list`; scenarios of your own need --pack DIR"
		if nearest := c.Nearest(id); nearest != "" {
			hint = fmt.Sprintf("did you mean %s? Otherwise %s", nearest, hint)
		}
		return nil, fmt.Errorf("there is no scenario %q: %s", id, hint)
	}
	if err != nil {
		return nil, fmt.Errorf("instantiating %s: %w", id, err)
	}
	return drawn, nil
}
