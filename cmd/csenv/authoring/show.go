package authoring

import (
	"fmt"
	"io"

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
		Short: "Show one scenario: what the agent is served, and what is right",
		Long: `Show one scenario, drawn by a seed: what the agent is served or can find and, apart from it, what is
right: labels, facts, gates and good replies. It is for people who review scenarios.`,
		Example: `  csenv scenarios show B07
  csenv scenarios show B07 --seed 42 --served
  csenv scenarios show ACME3 --pack ./acme -o yaml`,
		Args: cli.OneArgument("ID", "the id of a scenario, as `csenv scenarios list` shows them"),
	}
	packs, output := cli.PackFlag(cmd.Flags()), view.FormatFlag(cmd.Flags(), "text", "json", "yaml")
	cmd.Flags().Int64Var(&seed, "seed", 0, "seed that draws the scenario's values; 0 draws the canonical branches")
	cmd.Flags().BoolVar(&served, "served", false, "show only what the agent is served")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := cli.LoadCatalog(*packs)
		if err != nil {
			return err
		}
		if err := cmd.Context().Err(); err != nil {
			return err
		}
		v, err := ViewOf(c, args[0], seed)
		if err != nil {
			return err
		}
		if served {
			v.hideGold()
		}
		if output.Name != "text" {
			return output.Encode(cmd.OutOrStdout(), v)
		}
		v.print(cmd.OutOrStdout())
		return nil
	}
	return cmd
}

// Shown is a scenario as it is shown.
type Shown interface {
	print(w io.Writer)
	hideGold()
}

func ViewOf(c *scenarios.Catalog, id string, seed int64) (Shown, error) {
	if s, ok := c.Ticket(id); ok {
		t, err := s.Instantiate(seed)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", id, err)
		}
		return newTicketView(s, t), nil
	}
	if s, ok := c.Workflow(id); ok {
		w, err := s.Instantiate(seed)
		if err != nil {
			return nil, fmt.Errorf("instantiating %s: %w", id, err)
		}
		return newWorkflowView(s, w), nil
	}
	hint := "list them with `csenv scenarios list`; scenarios of your own need --pack DIR"
	if nearest := c.Nearest(id); nearest != "" {
		hint = fmt.Sprintf("did you mean %s? Otherwise %s", nearest, hint)
	}
	return nil, fmt.Errorf("there is no scenario %q: %s", id, hint)
}
