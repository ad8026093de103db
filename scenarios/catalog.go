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
	"embed"
	"slices"
	"strings"
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
	// indexed is the index by which the first pack was opened, nil if it was compiled. The canaries
	// of an indexed pack are missing.
	indexed *index
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
	out := *c
	d := newDigester()
	d.addText(c.digest)
	kept := func(pack pack.Info, split, id string) bool {
		if !keep(pack, split) {
			return false
		}
		d.addText(id)
		return true
	}
	out.tickets = slices.DeleteFunc(slices.Clone(c.tickets), func(s *TicketScenario) bool {
		return !kept(s.Pack, s.Split, s.ID)
	})
	drop := func(s *WorkflowScenario) bool { return !kept(s.Pack, s.Split, s.ID) }
	out.workflows = slices.DeleteFunc(slices.Clone(c.workflows), drop)
	out.cases = slices.DeleteFunc(slices.Clone(c.cases), drop)
	if out.arrange(); len(out.ticketsByID) < len(c.ticketsByID) || len(out.workflowByID) < len(c.workflowByID) {
		out.digest = d.String()
	}
	return &out
}

// arrange orders the scenarios and lists them by their ids.
func (c *Catalog) arrange() {
	slices.SortFunc(c.tickets, func(a, b *TicketScenario) int { return strings.Compare(a.ID, b.ID) })
	c.ticketsByID = map[string]*TicketScenario{}
	for _, s := range c.tickets {
		c.ticketsByID[s.ID] = s
	}
	c.workflowByID = map[string]*WorkflowScenario{}
	for _, list := range [][]*WorkflowScenario{c.workflows, c.cases} {
		slices.SortFunc(list, func(a, b *WorkflowScenario) int { return strings.Compare(a.ID, b.ID) })
		for _, s := range list {
			c.workflowByID[s.ID] = s
		}
	}
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
