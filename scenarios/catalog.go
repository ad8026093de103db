// Package scenarios is the catalogue of cases that agents are tested on: tickets and workflows as
// YAML files, the policies that decide the right handling, and the seeded instantiation that turns
// a scenario into one concrete case.
//
// A scenario is a template. Its params (people, amounts, ids, dates, branches) are drawn from a
// seed, each from a random stream of its own; its texts and values are rendered over them with CEL
// expressions in {{ }}. The policies compute the right handling from the drawn situation, and the
// file states it as well; Lint reports where the two disagree. The same scenario and seed give the
// same instance on every machine.
//
// Scenario files may come from others. Loading checks everything that can be checked without a seed
// and reports all faults of a pack together, by file and line.
package scenarios

import (
	"crypto/sha256"
	"embed"
	"slices"
	"sync"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/source"
)

//go:embed pack.yaml tickets workflows kb names families modifiers
var embedded embed.FS

var public = sync.OnceValues(func() (*Catalog, error) { return LoadPacks(PublicPack()) })

// LoadPublic returns the catalogue that is part of this program. It is loaded once.
func LoadPublic() (*Catalog, error) { return public() }

// Catalog is a set of scenarios. It is immutable and safe for concurrent use.
type Catalog struct {
	digest       string
	packs        []pack.Info
	tickets      []*TicketScenario
	ticketsByID  map[string]*TicketScenario
	workflows    []*WorkflowScenario
	cases        []*WorkflowScenario
	workflowByID map[string]*WorkflowScenario
	caseSet      func() *cases.Set // nil without cases
	canaries     []canary
	// indexed means that the first pack is the public one and was opened by its index. Its
	// canaries are missing.
	indexed bool
}

// canary is the canary of a data file.
type canary struct {
	pack       *openPack
	file, text string
}

// Digest is "sha256:<hex>" over every served or graded byte of the catalogue: it is equal for two
// catalogues whose files differ only in layout, comments, authorship or reference replies.
func (c *Catalog) Digest() string { return c.digest }

// Tickets returns the ticket scenarios ordered by id. The caller owns the slice.
func (c *Catalog) Tickets() []*TicketScenario { return slices.Clone(c.tickets) }

// Ticket returns the ticket scenario of the given id.
func (c *Catalog) Ticket(id string) (*TicketScenario, bool) {
	s, ok := c.ticketsByID[id]
	return s, ok
}

// Workflows returns the workflow scenarios that aren't generated, ordered by id. The caller owns
// the slice.
func (c *Catalog) Workflows() []*WorkflowScenario { return slices.Clone(c.workflows) }

// CaseSet returns the families and modifiers of the first pack that has any, or nil.
func (c *Catalog) CaseSet() *cases.Set {
	if c.caseSet == nil {
		return nil
	}
	return c.caseSet()
}

// Cases returns the generated workflow scenarios ordered by id. The caller owns the slice.
func (c *Catalog) Cases() []*WorkflowScenario { return slices.Clone(c.cases) }

// Workflow returns the workflow scenario of the given id, generated or not.
func (c *Catalog) Workflow(id string) (*WorkflowScenario, bool) {
	s, ok := c.workflowByID[id]
	return s, ok
}

// Packs lists the packs of the catalogue. The caller owns the slice.
func (c *Catalog) Packs() []pack.Info { return slices.Clone(c.packs) }

// Split returns the catalogue of the scenarios of some splits.
func (c *Catalog) Split(splits ...string) *Catalog {
	return c.filter(func(_ pack.Info, split string) bool { return slices.Contains(splits, split) })
}

// Only returns the catalogue of the scenarios of some packs.
func (c *Catalog) Only(keep func(pack.Info) bool) *Catalog {
	return c.filter(func(pack pack.Info, _ string) bool { return keep(pack) })
}

// filter keeps some scenarios. Unless it keeps all, the digest changes, because episodes without a
// scenario choose among the remaining ones.
func (c *Catalog) filter(keep func(pack pack.Info, split string) bool) *Catalog {
	out := newCatalog()
	out.packs, out.canaries, out.caseSet, out.indexed = c.packs, c.canaries, c.caseSet, c.indexed
	d := digester{sha256.New()}
	d.text(c.digest)
	for _, s := range c.tickets {
		if keep(s.Pack, s.Split) {
			out.addTicket(s)
			d.text(s.ID)
		}
	}
	for _, s := range slices.Concat(c.workflows, c.cases) {
		if keep(s.Pack, s.Split) {
			out.addWorkflow(s)
			d.text(s.ID)
		}
	}
	if out.digest = d.String(); len(out.tickets) == len(c.tickets) && len(out.workflowByID) == len(c.workflowByID) {
		out.digest = c.digest
	}
	return out
}

func newCatalog() *Catalog {
	return &Catalog{ticketsByID: map[string]*TicketScenario{}, workflowByID: map[string]*WorkflowScenario{}}
}

func (c *Catalog) addTicket(s *TicketScenario) {
	c.tickets, c.ticketsByID[s.ID] = append(c.tickets, s), s
}

func (c *Catalog) addWorkflow(s *WorkflowScenario) {
	c.workflowByID[s.ID] = s
	if s.Family != "" {
		c.cases = append(c.cases, s)
		return
	}
	c.workflows = append(c.workflows, s)
}

// Nearest returns the id nearest to a misspelt one, or "".
func (c *Catalog) Nearest(id string) string {
	var known []string
	for _, s := range c.tickets {
		known = append(known, s.ID)
	}
	for _, s := range c.workflows {
		known = append(known, s.ID)
	}
	return source.NearestWord(id, known)
}
