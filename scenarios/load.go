package scenarios

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// LoadFolders reads the catalogue of the packs in some folders. The base is the public pack or, if
// base isn't "", the pack in that folder. Links out of a folder are not followed.
func LoadFolders(base string, folders ...string) (*Catalog, error) {
	if base == "" && len(folders) == 0 {
		return LoadPublic()
	}
	packs := []pack.Pack{PublicPack()}
	if base != "" {
		packs, folders = nil, append([]string{base}, folders...)
	}
	for _, folder := range folders {
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, fmt.Errorf("opening the pack %s: %w: name a folder with scenario files", folder, err)
		}
		defer root.Close()
		packs = append(packs, pack.Pack{Name: folder, FS: root.FS()})
	}
	return LoadPacks(packs...)
}

// LoadPacks reads the catalogue of several packs. A pack without an article, a list of names, a
// family or a modifier uses that of the first pack, the base. The ids of scenarios are unique over
// all packs. The error joins all faults, each in the form "tickets/B07.yaml:31: what is wrong: what
// to do".
func LoadPacks(packs ...pack.Pack) (*Catalog, error) {
	if len(packs) == 0 {
		return nil, errors.New("no packs: name at least one")
	}
	return load(packs, packs[0] == PublicPack())
}

// load reads packs one after the other. If the first is indexed, its scenarios are known by the
// index and compiled when they are needed.
func load(packs []pack.Pack, indexed bool) (*Catalog, error) {
	c := &Catalog{}
	var faults []error
	var base *openPack
	var compiled []*openPack
	files := map[string]string{} // of the scenarios, by id
	for _, p := range packs {
		contents, errs := pack.Read(p)
		opened := openPackOf(contents, base)
		c.packs = append(c.packs, opened.info)
		faults = append(faults, errs...)
		if base != nil || !indexed || !opened.readIndex(c) {
			compiled = append(compiled, opened)
			faults = append(faults, opened.compileAll(c)...)
		}
		faults = append(faults, opened.checkIDs(files)...)
		base = cmp.Or(base, opened)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	digest, err := hashPacks(c.indexed, compiled)
	c.digest = digest.String()
	c.arrange()
	return c, err
}

// openPack is a pack that is being loaded.
type openPack struct {
	info      pack.Info
	salt      string
	documents []*document
	// names and articles are the pack's and those of the base that it lacks. They are compiled at
	// their first use.
	names    compiledLater[params.NameList]
	articles compiledLater[article]
	// base is the pack whose families and modifiers are used beside the own, nil for the base
	// itself.
	base *openPack
}

// compiledLater are results of compiling files, by their ids.
type compiledLater[T any] map[string]func() *T

// find returns a result, nil if there is none.
func (all compiledLater[T]) find(id string) *T {
	if compile := all[id]; compile != nil {
		return compile()
	}
	return nil
}

func openPackOf(contents pack.Contents, base *openPack) *openPack {
	p := &openPack{info: contents.Info, salt: contents.Salt, names: compiledLater[params.NameList]{},
		articles: compiledLater[article]{}, base: base}
	if base != nil {
		p.names, p.articles = maps.Clone(base.names), maps.Clone(base.articles)
	}
	for _, f := range contents.Files {
		d := &document{File: f, pack: p}
		p.documents = append(p.documents, d)
		switch f.Folder {
		case "names":
			p.names[f.ID] = sync.OnceValue(d.compileNames)
		case "kb":
			p.articles[f.ID] = sync.OnceValue(d.compileArticle)
		}
	}
	return p
}

// compileAll compiles all of a pack, adds its scenarios to the catalogue, and returns the faults.
func (p *openPack) compileAll(c *Catalog) (faults []error) {
	n := len(p.documents)
	tickets, workflows := make([]*TicketScenario, n), make([]*WorkflowScenario, n)
	atOnce(n, func(i int) { p.documents[i].keepRoot() })
	atOnce(n, func(i int) {
		switch d := p.documents[i]; d.Folder {
		case "names":
			p.names.find(d.ID)
		case "kb":
			p.articles.find(d.ID)
		case "tickets":
			tickets[i] = d.loadTicket()
		case "workflows":
			workflows[i] = d.loadWorkflow()
		default: // compiled with the other files of the cases
			d.errs = append(d.errs, d.decoder.Errs...)
		}
	})
	for _, d := range p.documents {
		faults = append(faults, d.errs...)
		if d.canary != nil {
			c.canaries = append(c.canaries, canary{p, d.Path, *d.canary})
		}
	}
	c.tickets, c.workflows = appendFound(c.tickets, tickets), appendFound(c.workflows, workflows)
	return append(faults, p.compileCases(c)...)
}

// appendFound appends the items that aren't nil.
func appendFound[T any](to, items []*T) []*T {
	return append(to, slices.DeleteFunc(items, func(item *T) bool { return item == nil })...)
}

// atOnce calls f for the numbers below n, on all processors.
func atOnce(n int, f func(int)) {
	var group sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	group.Wait()
}

// document is a file of a pack that is being loaded. One goroutine at a time compiles it.
type document struct {
	pack.File
	pack *openPack
	errs []error
	// decoder and root are nil unless keepRoot was called.
	decoder *source.Decoder
	root    *yaml.Node
	// position and canary are those of the metadata, once it is decoded.
	position source.Position
	canary   *string
}

// keepRoot parses the file, unless it is an article, for several uses.
func (d *document) keepRoot() {
	if d.Folder != "kb" {
		d.decoder, d.root = d.parse()
	}
}

// parse returns the file's YAML, nil after a fault, which the decoder recorded.
func (d *document) parse() (*source.Decoder, *yaml.Node) {
	if d.decoder != nil {
		return d.decoder, d.root
	}
	decoder := &source.Decoder{File: d.Path}
	return decoder, decoder.Root(d.Data)
}

// compileNames compiles a list of names. It returns nil after a fault, and for a file of cases.
func (d *document) compileNames() *params.NameList {
	var f nameFile
	if d.isOfCases() || !d.decode(&f, &f.Metadata) {
		return nil
	}
	if len(f.People.Given) == 0 || len(f.People.Family) == 0 {
		d.errs = append(d.errs, fmt.Errorf("%s: people needs at least one given and one family name", d.Path))
		return nil
	}
	list := params.NewNameList(f.People.Given, f.People.Family)
	for _, e := range f.Lists {
		list.Lists[e.Name] = e.Value
	}
	return list
}

// isOfCases reports whether a file describes generated cases.
func (d *document) isOfCases() bool {
	if d.Folder != "names" {
		return d.Folder == "families" || d.Folder == "modifiers"
	}
	_, root := d.parse()
	return root != nil && cases.IsKind(source.KindAt(root))
}

// decode decodes a YAML file strictly. After a fault, which it records, it returns false.
func (d *document) decode(into any, meta *baseMetadata) bool {
	decoder, root := d.parse()
	if root != nil {
		decoder.Value(root, reflect.ValueOf(into).Elem(), "")
	}
	if len(decoder.Errs) == 0 {
		checkMetadata(decoder, meta, d.ID)
	}
	d.errs = append(d.errs, decoder.Errs...)
	d.position, d.canary = meta.Pos, &meta.Canary
	return len(decoder.Errs) == 0
}

// maxID bounds scenario ids, which are parts of labels and of the keys of scores.
const maxID = 32

func checkMetadata(d *source.Decoder, meta *baseMetadata, id string) {
	pos := meta.Pos
	plain := strings.Trim(meta.ID, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") == ""
	switch {
	case meta.ID != id:
		d.Errs = append(d.Errs, pos.Errorf("id %q must be the file's name, %q", meta.ID, id))
	case !plain || len(id) > maxID:
		d.Errs = append(d.Errs, pos.Errorf("id %q must have at most %d letters, digits and -", id, maxID))
	case meta.Version < 1:
		d.Errs = append(d.Errs, pos.Errorf("version must be at least 1, got %d", meta.Version))
	}
}

// queueID matches the ids of queues, which a reset names in the same field as scenarios.
var queueID = regexp.MustCompile(`^Q[0-9]{3}$`)

// checkIDs checks that the ids of a pack's scenarios are new, and adds them to those of the packs
// before. Ids that differ only in case count as the same, as on some file systems.
func (p *openPack) checkIDs(files map[string]string) (faults []error) {
	for _, d := range p.documents {
		id := strings.ToUpper(d.ID)
		other, taken := files[id]
		switch {
		case d.Folder != "tickets" && d.Folder != "workflows" || len(d.errs) > 0:
		case queueID.MatchString(id):
			faults = append(faults, d.position.Errorf("the id %q is reserved for a queue: give the scenario one that "+
				"isn't Q and three digits", d.ID))
		case taken:
			faults = append(faults, d.position.Errorf("%s already has the id %q, ignoring case: give one of the two "+
				"scenarios another", other, d.ID))
		default:
			files[id] = d.Path
		}
	}
	return faults
}

// PublicPack returns the pack that is part of this program.
func PublicPack() pack.Pack { return pack.Pack{Name: "scenarios", FS: embedded} }

// Splits are the parts of a catalogue, by the intended use of their scenarios.
var Splits = []string{"public-train", "public-dev", "public-test", "private"}

// FolderName returns the name in a folder's pack.yaml. It returns "" if the file is missing or
// invalid, which loading reports.
func FolderName(folder string) string {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return ""
	}
	defer root.Close()
	return pack.ReadName(pack.Pack{FS: root.FS()})
}
