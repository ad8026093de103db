// Package scenarios is the catalogue of cases that agents are tested on: tickets and workflows as YAML files, the policies that decide what is right, and the seeded
// instantiation that turns a scenario into one concrete case.
//
// A scenario is a template. Its params (people, amounts, ids, dates, branches) are drawn from a seed, each from a random stream of its own; its texts and values are
// rendered over them with CEL expressions in {{ }}. What is right is computed by the policies over the drawn situation and stated in the file as well; Lint reports where the two
// disagree. The same scenario and seed give the same instance on every machine.
//
// Scenario files are data of others: loading checks everything that can be checked without a seed, and reports all faults of a pack together, by file and line.
package scenarios

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
)

//go:embed tickets workflows kb names
var embedded embed.FS

var public = sync.OnceValues(func() (*Catalog, error) { return Load(embedded) })

// Public returns the catalogue that is part of this program. It is loaded once.
func Public() (*Catalog, error) { return public() }

// salt goes into every random stream. A pack whose instances must not be computable from its files would have a secret one.
const salt = "csenv/public"

// Catalog is a set of scenarios. It is immutable and safe for concurrent use.
type Catalog struct {
	digest       string
	tickets      []*TicketScenario
	ticketsByID  map[string]*TicketScenario
	workflows    []*WorkflowScenario
	workflowByID map[string]*WorkflowScenario
	canaries     []canary
}

// canary is the canary of a data file.
type canary struct {
	file, text string
}

// Digest is "sha256:<hex>" over every served or graded byte of the catalogue: it is equal for two catalogues whose files differ only in layout, comments, authorship or
// reference replies.
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

// Load reads a catalogue: tickets/*.yaml, workflows/*.yaml, kb/*.md and names/*.yaml. Its error joins every fault found, each as "tickets/B07.yaml:31: what is wrong: what to do".
func Load(fsys fs.FS) (*Catalog, error) {
	l, err := newLoader()
	if err != nil {
		return nil, err
	}
	l.readAll(fsys)
	c := &Catalog{ticketsByID: map[string]*TicketScenario{}, workflowByID: map[string]*WorkflowScenario{}, canaries: l.canaries}
	for _, f := range l.tickets {
		if s := l.ticket(f.file, f.value); s != nil {
			c.tickets, c.ticketsByID[s.ID] = append(c.tickets, s), s
		}
	}
	for _, f := range l.workflows {
		if s := l.workflow(f.file, f.value); s != nil {
			c.workflows, c.workflowByID[s.ID] = append(c.workflows, s), s
		}
	}
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	c.digest = "sha256:" + hex.EncodeToString(l.digest.Sum(nil))
	return c, nil
}

// loader is what loading a catalogue needs and collects.
type loader struct {
	locales   map[string]*locale
	languages map[string]*cel.Env
	names     map[string]*nameList
	articles  map[string]*article
	tickets   []parsed[ticketFile]
	workflows []parsed[workflowFile]
	canaries  []canary
	digest    digester
	errs      []error
}

// parsed is a decoded file that waits to be compiled.
type parsed[T any] struct {
	file  string
	value *T
}

func newLoader() (*loader, error) {
	l := &loader{locales: locales(), languages: map[string]*cel.Env{}, names: map[string]*nameList{}, articles: map[string]*article{}, digest: digester{sha256.New()}}
	l.digest.text(salt)
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

// readAll reads all files in the order of their names.
func (l *loader) readAll(fsys fs.FS) {
	l.each(fsys, "names", ".yaml", func(file, id string, data []byte) {
		var f nameFile
		l.decode(file, id, data, &f, &f.Metadata)
		if len(f.People.Given) == 0 || len(f.People.Family) == 0 {
			l.errs = append(l.errs, fmt.Errorf("%s: people needs at least one given and one family name", file))
			return
		}
		l.names[id] = newNameList(&f)
	})
	l.each(fsys, "kb", ".md", func(file, id string, data []byte) {
		l.digest.text(file)
		if a := l.article(file, id, data); a != nil {
			l.articles[id] = a
			l.canaries = append(l.canaries, canary{file, a.canary})
			l.digest.article(a)
		}
	})
	l.each(fsys, "tickets", ".yaml", func(file, id string, data []byte) {
		f := new(ticketFile)
		if l.decode(file, id, data, f, &f.Metadata.baseMetadata) {
			l.tickets = append(l.tickets, parsed[ticketFile]{file, f})
		}
	})
	l.each(fsys, "workflows", ".yaml", func(file, id string, data []byte) {
		f := new(workflowFile)
		if l.decode(file, id, data, f, &f.Metadata.baseMetadata) {
			l.workflows = append(l.workflows, parsed[workflowFile]{file, f})
		}
	})
}

// each reads the files of a folder, which may be missing.
func (l *loader) each(fsys fs.FS, folder, ext string, read func(file, id string, data []byte)) {
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.errs = append(l.errs, fmt.Errorf("reading folder %s: %w", folder, err))
	}
	for _, e := range entries {
		file := path.Join(folder, e.Name())
		id, ok := strings.CutSuffix(e.Name(), ext)
		if !ok || e.IsDir() {
			l.errs = append(l.errs, fmt.Errorf("%s: unexpected here: %s holds files named <id>%s", file, folder, ext))
			continue
		}
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			l.errs = append(l.errs, fmt.Errorf("reading %s: %w", file, err))
			continue
		}
		read(file, id, data)
	}
}

// decode decodes a YAML file strictly; it returns false after a fault, which it has noted.
func (l *loader) decode(file, id string, data []byte, into any, meta *baseMetadata) bool {
	d := &decoder{file: file}
	if root := d.root(data); root != nil {
		d.value(root, reflect.ValueOf(into).Elem(), "")
		l.digest.text(file)
		l.digest.node(root, "")
	}
	if len(d.errs) == 0 {
		d.checkMetadata(meta, id)
	}
	l.canaries = append(l.canaries, canary{file, meta.Canary})
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
