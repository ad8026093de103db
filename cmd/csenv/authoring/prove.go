package authoring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/view"
	tickets "github.com/csenv/csenv/envserver/env/ticket"
	environment "github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
)

// proveOptions choose the cases to prove.
type proveOptions struct {
	families  []string
	languages []string
	cases     int
	draws     int
	seed      int64
}

// proofReport is the JSON output of prove.
type proofReport struct {
	Cases        int           `json:"cases"`
	Compositions int           `json:"compositions"`
	Decisions    int           `json:"decisions"` // that differ in what is right to do
	Paths        int           `json:"paths"`
	Draws        int           `json:"draws"`
	Families     []familyProof `json:"families"`
	Findings     []finding     `json:"findings"`
}

// familyProof are the figures of a family.
type familyProof struct {
	Family    string `json:"family"`
	Cases     int    `json:"cases"`
	Proved    int    `json:"proved"`
	Decisions int    `json:"decisions"`
	Steps     [3]int `json:"steps"` // least, median, most
}

func newProveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "prove [DIR...]", Short: "Prove the gold of generated cases by playing them"}
	cli.SetHelp(cmd, "prove")
	o := proveOptions{}
	f := cmd.Flags()
	f.StringSliceVar(&o.families, "family", nil, "`family` to prove; may be repeated; by default all")
	f.StringSliceVar(&o.languages, "language", nil, "`language` of the cases; may be repeated; by default all")
	f.IntVar(&o.cases, "cases", 1000, "number of cases to prove")
	f.IntVar(&o.draws, "draws", 0, "number of further cases that are only drawn and decided")
	f.Int64Var(&o.seed, "seed", 0, "first seed")
	packs, output := cli.PackFlag(f), view.FormatFlag(f, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, dirs []string) error {
		c, err := cli.LoadCatalog(slices.Concat(*packs, dirs))
		if err != nil {
			return err
		}
		r, err := proveCases(cmd.Context(), c, o, progressBar(cmd.ErrOrStderr(), "proving"))
		if err != nil {
			return err
		}
		return printFindings(cmd.OutOrStdout(), output, r, len(r.Findings))
	}
	return cmd
}

// proved is what is known about a family so far.
type proved struct {
	familyProof
	steps      []int
	signatures map[string]bool
}

// proveCases proves cases of every composition in turn, with rising seeds. It uses all processors;
// the result doesn't depend on their number.
func proveCases(ctx context.Context, c *scenarios.Catalog, o proveOptions,
	progress func(done, total int)) (*proofReport, error) {
	all, err := listProvables(c, o)
	if err != nil {
		return nil, err
	}
	r := &proofReport{Compositions: len(all), Findings: []finding{}}
	byFamily := map[string]*proved{}
	var mu sync.Mutex
	var next, done atomic.Int64
	total := o.cases + o.draws
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			reader := offline.New()
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= total {
					return
				}
				c, seed := all[i%len(all)], o.seed+int64(i/len(all))
				decision, p, err := c.prove(ctx, reader, seed, i < o.cases)
				mu.Lock()
				r.add(byFamily, c, seed, decision, err, p, i < o.cases)
				mu.Unlock()
				if n := done.Add(1); n%256 == 0 || int(n) == total {
					mu.Lock()
					progress(int(n), total)
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	r.sum(byFamily)
	return r, ctx.Err()
}

// provable is a generated case, shown as a workflow or as a ticket.
type provable struct {
	id, family, language string
	prove                prover
}

// prover draws a case and, if playing is set, plays it.
type prover func(ctx context.Context, judge *offline.Judge, seed int64, playing bool) (*desk.Decision,
	environment.Proof, error)

// listProvables lists the chosen cases of the catalogue's lists.
func listProvables(c *scenarios.Catalog, o proveOptions) ([]provable, error) {
	var all []provable
	for _, s := range c.Cases() {
		all = append(all, provable{s.ID, s.Category(), s.Language, proveWorkflow(s)})
	}
	for _, s := range c.Tickets() {
		if s.Generated() {
			all = append(all, provable{s.ID, s.Family, s.Language, proveTicket(s)})
		}
	}
	for _, family := range o.families {
		if !slices.ContainsFunc(all, func(c provable) bool { return c.family == family }) {
			return nil, fmt.Errorf("there are no cases of family %q", family)
		}
	}
	all = slices.DeleteFunc(all, func(c provable) bool {
		return len(o.families) > 0 && !slices.Contains(o.families, c.family) ||
			len(o.languages) > 0 && !slices.Contains(o.languages, c.language)
	})
	if len(all) == 0 {
		return nil, errors.New("the catalogue has no such generated cases")
	}
	return all, nil
}

func proveWorkflow(s *scenarios.WorkflowScenario) prover {
	return func(_ context.Context, judge *offline.Judge, seed int64, playing bool) (*desk.Decision,
		environment.Proof, error) {
		w, err := s.Instantiate(seed)
		switch {
		case err != nil:
			return nil, environment.Proof{}, err
		case !playing:
			return w.Decision, environment.Proof{}, nil
		}
		return w.Decision, environment.ProveCase(w, judge), nil
	}
}

// ticketSteps are the actions by which a ticket is handled: labels, reply and end.
const ticketSteps = 3

func proveTicket(s *scenarios.TicketScenario) prover {
	return func(ctx context.Context, judge *offline.Judge, seed int64, playing bool) (*desk.Decision,
		environment.Proof, error) {
		t, err := s.Instantiate(seed)
		switch {
		case err != nil:
			return nil, environment.Proof{}, err
		case !playing:
			return t.Decision, environment.Proof{}, nil
		}
		p := environment.Proof{Steps: ticketSteps}
		p.Tried, p.Faults, err = tickets.Prove(ctx, t, judge)
		return t.Decision, p, err
	}
}

func (r *proofReport) add(byFamily map[string]*proved, c provable, seed int64, decision *desk.Decision, err error,
	p environment.Proof, proving bool) {
	r.Draws++
	if err != nil {
		r.Findings = append(r.Findings, finding{c.id, "draw", err.Error()})
		return
	}
	f := byFamily[c.family]
	if f == nil {
		f = &proved{familyProof: familyProof{Family: c.family}, signatures: map[string]bool{}}
		byFamily[c.family] = f
	}
	f.signatures[cases.BuildSignature(decision)] = true
	if !proving {
		return
	}
	r.Cases++
	r.Paths += p.Tried
	f.Cases++
	f.steps = append(f.steps, p.Steps)
	if len(p.Faults) == 0 {
		f.Proved++
	}
	for _, fault := range p.Faults {
		r.Findings = append(r.Findings, finding{fmt.Sprintf("%s seed %d", c.id, seed), "proof", fault})
	}
}

func (r *proofReport) sum(byFamily map[string]*proved) {
	for _, f := range byFamily {
		f.Decisions = len(f.signatures)
		r.Decisions += f.Decisions
		if slices.Sort(f.steps); len(f.steps) > 0 {
			f.Steps = [3]int{f.steps[0], f.steps[len(f.steps)/2], f.steps[len(f.steps)-1]}
		}
		r.Families = append(r.Families, f.familyProof)
	}
	slices.SortFunc(r.Families, func(a, b familyProof) int { return strings.Compare(a.Family, b.Family) })
	slices.SortFunc(r.Findings, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.Position, b.Position), strings.Compare(a.Message, b.Message))
	})
}

func (r *proofReport) print(w io.Writer) {
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s: %s (%s)\n", f.Position, printable.EscapeText(f.Message), f.Rule)
	}
	printTable(w, "Proofs by family; steps are the required ones of a case: least, median, most",
		[]string{"family", "cases", "proved", "decisions", "steps"}, r.Families, func(f familyProof) []any {
			return []any{f.Family, f.Cases, f.Proved, f.Decisions,
				fmt.Sprintf("%d %d %d", f.Steps[0], f.Steps[1], f.Steps[2])}
		})
	fmt.Fprintf(w, "\n%s of %s, %d different decisions, %s played, %s drawn: %s\n", view.FormatCount(r.Cases, "case"),
		view.FormatCount(r.Compositions, "composition"), r.Decisions, view.FormatCount(r.Paths, "path"),
		view.FormatCount(r.Draws, "case"), view.FormatCount(len(r.Findings), "finding"))
}

// printTable prints a title and a table, or nothing if there are no rows.
func printTable[T any](w io.Writer, title string, header []string, rows []T, cells func(T) []any) {
	if len(rows) == 0 {
		return
	}
	t := view.NewTable(header...)
	for _, row := range rows {
		t.AppendRow(cells(row))
	}
	fmt.Fprintf(w, "\n%s\n\n%s\n", title, t.Render())
}
