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
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/source"
)

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

// digester hashes served and graded content. YAML is hashed by content, with mappings in the order
// of their keys, so that layout and comments don't count.
type digester struct {
	hash.Hash
}

func newDigester() digester { return digester{sha256.New()} }

// hashPacks hashes compiled packs after the pack of an index, which may be nil.
func hashPacks(x *index, packs []*openPack) (digester, error) {
	d := newDigester()
	if x != nil {
		if err := d.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(x.Digest); err != nil {
			return d, fmt.Errorf("reading the index of the public pack: %w", err)
		}
	}
	for _, p := range packs {
		d.addText(p.salt)
		for _, doc := range p.documents {
			d.addText(doc.Canonical())
			if doc.Folder == "kb" {
				d.addArticle(p.articles.find(doc.ID))
			} else {
				d.addNode(doc.root, "")
			}
		}
	}
	return d, nil
}

// String returns "sha256:<hex>" over the content so far.
func (d digester) String() string { return "sha256:" + hex.EncodeToString(d.Sum(nil)) }

// isUngraded reports whether the content at the path is neither served nor graded.
func isUngraded(path string) bool {
	return slices.Contains([]string{
		".metadata.canary", ".metadata.authors", ".metadata.reviewedBy", ".metadata.issues", ".metadata.hardness",
		".metadata.cue",
		".gold.priority.rule", ".reply.facts[].shown", ".facts[].shown", ".references", ".forbidden[].why",
	}, path)
}

// addText hashes a text with its length, so that different lists of texts have different hashes. A
// hash's Write never fails.
func (d digester) addText(s string) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
	_, _ = d.Write([]byte(s))
}

func (d digester) addNode(n *yaml.Node, path string) {
	switch {
	case isUngraded(path):
	case n.Kind == yaml.MappingNode:
		d.addMapping(n, path)
	case n.Kind == yaml.SequenceNode:
		d.addText("[")
		for _, c := range n.Content {
			d.addNode(c, path+"[]")
		}
		d.addText("]")
	default:
		d.addText(n.Tag)
		d.addText(n.Value)
	}
}

func (d digester) addMapping(n *yaml.Node, path string) {
	byKey := map[string]*yaml.Node{}
	var names []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
		byKey[n.Content[i].Value] = n.Content[i+1]
	}
	slices.Sort(names)
	d.addText("{")
	for _, name := range names {
		if p := path + "." + name; !isUngraded(p) {
			d.addText(name)
			d.addNode(byKey[name], p)
		}
	}
	d.addText("}")
}

func (d digester) addArticle(a *article) {
	d.addText(a.title)
	d.addText(a.body.Text)
	for _, p := range a.params {
		d.addText(p.name)
		d.addText(strconv.FormatInt(expr.ToNative[int64](p.value), 10))
	}
}

// index is what is known of the public pack before any of its scenarios is played. Loading the pack
// as a whole takes most of the time of a server's start, for scenarios that it plays late or never.
// So each is compiled when it is first played. TestGoldenIndex compares the index with the whole
// pack, which it loads with all checks. If the files differ from what the index describes, the pack
// is loaded as a whole, like any other.
type index struct {
	// Files is the hash of the pack's files, and Digest the state of the catalogue's digest after
	// them.
	Files     uint64
	Digest    []byte
	Tickets   []*TicketScenario
	Workflows []*WorkflowScenario
	Cases     []*WorkflowScenario
}
