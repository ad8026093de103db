// Package scenarios is the catalogue of cases that agents are tested on: tickets and workflows as
// YAML files, the policies that decide what is right, and the seeded instantiation that turns a
// scenario into one concrete case.
//
// A scenario is a template. Its params (people, amounts, ids, dates, branches) are drawn from a
// seed, each from a random stream of its own; its texts and values are rendered over them with CEL
// expressions in {{ }}. What is right is computed by the policies over the drawn situation and
// stated in the file as well; Lint reports where the two disagree. The same scenario and seed give
// the same instance on every machine.
//
// Scenario files are data of others: loading checks everything that can be checked without a seed,
// and reports all faults of a pack together, by file and line.
package scenarios

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
)

//go:embed pack.yaml tickets workflows kb names
var embedded embed.FS

var public = sync.OnceValues(func() (*Catalog, error) { return LoadPacks(PublicPack()) })

// Public returns the catalogue that is part of this program. It is loaded once.
func Public() (*Catalog, error) { return public() }

// Catalog is a set of scenarios. It is immutable and safe for concurrent use.
type Catalog struct {
	digest       string
	packs        []PackInfo
	tickets      []*TicketScenario
	ticketsByID  map[string]*TicketScenario
	workflows    []*WorkflowScenario
	workflowByID map[string]*WorkflowScenario
	canaries     []canary
}

// canary is the canary of a data file.
type canary struct {
	pack       *openPack
	file, text string
}

// Digest is "sha256:<hex>" over every served or graded byte of the catalogue: it is equal for two
// catalogues whose files differ only in layout, comments, authorship or reference replies.
func (c *Catalog) Digest() string { return c.digest }

// Tickets returns the ticket scenarios ordered by id. The slice is the caller's.
func (c *Catalog) Tickets() []*TicketScenario { return slices.Clone(c.tickets) }

// Ticket returns the ticket scenario of the given id.
func (c *Catalog) Ticket(id string) (*TicketScenario, bool) {
	s, ok := c.ticketsByID[id]
	return s, ok
}

// Workflows returns the workflow scenarios ordered by id. The slice is the caller's.
func (c *Catalog) Workflows() []*WorkflowScenario { return slices.Clone(c.workflows) }

// Workflow returns the workflow scenario of the given id.
func (c *Catalog) Workflow(id string) (*WorkflowScenario, bool) {
	s, ok := c.workflowByID[id]
	return s, ok
}

// Packs says of which packs the catalogue is made. The slice is the caller's.
func (c *Catalog) Packs() []PackInfo { return slices.Clone(c.packs) }

// Split returns the catalogue of the scenarios of some splits.
func (c *Catalog) Split(splits ...string) *Catalog {
	return c.filter(func(_ PackInfo, split string) bool { return slices.Contains(splits, split) })
}

// Only returns the catalogue of the scenarios of some packs.
func (c *Catalog) Only(keep func(PackInfo) bool) *Catalog {
	return c.filter(func(pack PackInfo, _ string) bool { return keep(pack) })
}

// filter keeps some scenarios. The digest becomes another, unless all are kept, because what is
// drawn without naming a scenario follows from what there is to draw from.
func (c *Catalog) filter(keep func(pack PackInfo, split string) bool) *Catalog {
	out := newCatalog()
	out.packs, out.canaries = c.packs, c.canaries
	d := digester{sha256.New()}
	d.text(c.digest)
	for _, s := range c.tickets {
		if keep(s.Pack, s.Split) {
			out.addTicket(s)
			d.text(s.ID)
		}
	}
	for _, s := range c.workflows {
		if keep(s.Pack, s.Split) {
			out.addWorkflow(s)
			d.text(s.ID)
		}
	}
	if out.digest = d.String(); len(out.tickets) == len(c.tickets) && len(out.workflows) == len(c.workflows) {
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
	c.workflows, c.workflowByID[s.ID] = append(c.workflows, s), s
}

// LoadPacks reads the catalogue of several packs. An article or a list of names that a scenario's
// own pack hasn't is that of the first pack, the base. The ids of scenarios are unique over all
// packs. The error joins every fault found, each as "tickets/B07.yaml:31: what is wrong: what to
// do".
func LoadPacks(packs ...Pack) (*Catalog, error) {
	if len(packs) == 0 {
		return nil, errNoPacks
	}
	l, err := newLoader()
	if err != nil {
		return nil, err
	}
	c := newCatalog()
	for _, p := range packs {
		open := l.open(p)
		c.packs = append(c.packs, open.info)
	}
	for _, f := range l.tickets {
		if s := l.ticket(f); s != nil {
			c.addTicket(s)
		}
	}
	for _, f := range l.workflows {
		if s := l.workflow(f); s != nil {
			c.addWorkflow(s)
		}
	}
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	slices.SortFunc(c.tickets, func(a, b *TicketScenario) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(c.workflows, func(a, b *WorkflowScenario) int { return strings.Compare(a.ID, b.ID) })
	c.canaries, c.digest = l.canaries, l.digest.String()
	return c, nil
}

// loader is what loading a catalogue needs and collects.
type loader struct {
	locales   map[string]*locale
	languages map[string]*cel.Env
	base      *openPack
	// scenarios are the files of the scenarios so far, by id.
	scenarios map[string]string
	tickets   []parsed[ticketFile]
	workflows []parsed[workflowFile]
	canaries  []canary
	digest    digester
	errs      []error
}

// parsed is a decoded file that waits to be compiled.
type parsed[T any] struct {
	pack  *openPack
	file  string
	value *T
}

func newLoader() (*loader, error) {
	l := &loader{locales: locales(), languages: map[string]*cel.Env{}, scenarios: map[string]string{},
		digest: digester{sha256.New()}}
	for _, lang := range slices.Sorted(maps.Keys(l.locales)) {
		env, err := newLanguage(l.locales[lang])
		if err != nil {
			return nil, fmt.Errorf("making the expression language for %s: %w", lang, err)
		}
		l.languages[lang] = env
	}
	return l, nil
}

func (l *loader) fail(d *decoder, c *compiler) {
	l.errs = append(l.errs, d.errs...)
	l.errs = append(l.errs, c.errs...)
}

// open reads a pack's files and decodes them.
func (l *loader) open(p Pack) *openPack {
	pack := &openPack{Pack: p, names: map[string]*nameList{}, articles: map[string]*article{}, base: l.base}
	if l.base == nil {
		l.base = pack
	}
	r := &packReader{Pack: p}
	sources, manifest := r.read()
	l.errs = append(l.errs, r.errs...)
	l.errs = append(l.errs, pack.manifest(manifest)...)
	l.digest.text(pack.salt)
	for _, s := range sources {
		l.source(pack, s)
	}
	return pack
}

// source decodes a file.
func (l *loader) source(pack *openPack, s source) {
	switch s.folder {
	case "names":
		l.nameFile(pack, s)
	case "kb":
		l.digest.text(s.canonical())
		if a := l.article(s.file, s.id, s.data); a != nil {
			pack.articles[s.id] = a
			l.canaries = append(l.canaries, canary{pack, s.file, a.canary})
			l.digest.article(a)
		}
	case "tickets":
		f := new(ticketFile)
		if l.decode(pack, s, f, &f.Metadata.baseMetadata) && l.first(s, f.Metadata.Pos) {
			l.tickets = append(l.tickets, parsed[ticketFile]{pack, s.file, f})
		}
	default:
		f := new(workflowFile)
		if l.decode(pack, s, f, &f.Metadata.baseMetadata) && l.first(s, f.Metadata.Pos) {
			l.workflows = append(l.workflows, parsed[workflowFile]{pack, s.file, f})
		}
	}
}

func (l *loader) nameFile(pack *openPack, s source) {
	var f nameFile
	l.decode(pack, s, &f, &f.Metadata)
	if len(f.People.Given) == 0 || len(f.People.Family) == 0 {
		l.errs = append(l.errs, fmt.Errorf("%s: people needs at least one given and one family name", s.file))
		return
	}
	pack.names[s.id] = newNameList(&f)
}

// queueID is the form of the ids of composed queues, which are asked for in the same field as
// scenarios.
var queueID = regexp.MustCompile(`^Q[0-9]{3}$`)

// first reports whether a scenario's id is new and free. Case doesn't tell two ids apart: neither
// do all file systems, nor people.
func (l *loader) first(s source, pos position) bool {
	id := strings.ToUpper(s.id)
	if queueID.MatchString(id) {
		l.errs = append(l.errs, pos.errorf("the id %q is reserved for a queue: give the scenario one that isn't Q "+
			"and three digits", s.id))
		return false
	}
	if other, taken := l.scenarios[id]; taken {
		l.errs = append(l.errs, pos.errorf("%s already has the id %q, in whichever case: give one of the two "+
			"scenarios another", other, s.id))
		return false
	}
	l.scenarios[id] = s.file
	return true
}

// decode decodes a YAML file strictly; it returns false after a fault, which it has noted.
func (l *loader) decode(pack *openPack, s source, into any, meta *baseMetadata) bool {
	d := &decoder{file: s.file}
	if root := d.root(s.data); root != nil {
		d.value(root, reflect.ValueOf(into).Elem(), "")
		l.digest.text(s.canonical())
		l.digest.node(root, "")
	}
	if len(d.errs) == 0 {
		d.checkMetadata(meta, s.id)
	}
	l.canaries = append(l.canaries, canary{pack, s.file, meta.Canary})
	l.errs = append(l.errs, d.errs...)
	return len(d.errs) == 0
}

// maxID bounds scenario ids, which are parts of labels and of every score's key.
const maxID = 32

func (d *decoder) checkMetadata(meta *baseMetadata, id string) {
	pos := meta.Pos
	plain := strings.Trim(meta.ID, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == ""
	switch {
	case meta.ID != id:
		d.errs = append(d.errs, pos.errorf("id %q must be the file's name, %q", meta.ID, id))
	case !plain || len(id) > maxID:
		d.errs = append(d.errs, pos.errorf("id %q must have at most %d letters, digits and -", id, maxID))
	case meta.Version < 1:
		d.errs = append(d.errs, pos.errorf("version must be at least 1, got %d", meta.Version))
	}
}

// Nearest is the id most like a misspelt one, "" where none is.
func (c *Catalog) Nearest(id string) string {
	best, distance := "", min(3, len(id))
	for _, s := range c.tickets {
		if d := editDistance(strings.ToUpper(id), strings.ToUpper(s.ID)); d < distance {
			best, distance = s.ID, d
		}
	}
	for _, s := range c.workflows {
		if d := editDistance(strings.ToUpper(id), strings.ToUpper(s.ID)); d < distance {
			best, distance = s.ID, d
		}
	}
	return best
}
