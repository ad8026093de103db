package scenarios

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// LoadPacks reads the catalogue of several packs. A pack without an article or a list of names uses
// that of the first pack, the base. The ids of scenarios are unique over all packs. The error joins
// all faults, each in the form "tickets/B07.yaml:31: what is wrong: what to do".
func LoadPacks(packs ...pack.Pack) (*Catalog, error) {
	if len(packs) == 0 {
		return nil, errNoPacks
	}
	l, err := newLoader()
	if err != nil {
		return nil, err
	}
	return l.load(packs)
}

func (l *loader) load(packs []pack.Pack) (*Catalog, error) {
	c := newCatalog()
	for _, p := range packs {
		open := l.open(c, p)
		c.packs = append(c.packs, open.info)
	}
	for _, s := range compileAll(l, l.tickets, (*loader).ticket) {
		c.addTicket(s)
	}
	for _, s := range compileAll(l, l.workflows, (*loader).workflow) {
		c.addWorkflow(s)
	}
	for _, p := range l.cases {
		l.casesOf(c, p)
	}
	if len(l.errs) > 0 {
		return nil, errors.Join(l.errs...)
	}
	slices.SortFunc(c.tickets, func(a, b *TicketScenario) int { return strings.Compare(a.ID, b.ID) })
	for _, list := range [][]*WorkflowScenario{c.workflows, c.cases} {
		slices.SortFunc(list, func(a, b *WorkflowScenario) int { return strings.Compare(a.ID, b.ID) })
	}
	c.canaries, c.digest = l.canaries, l.digest.String()
	return c, nil
}

// casesOf compiles a pack's cases and adds them to the catalogue. A pack without a family or a
// modifier uses that of the base.
func (l *loader) casesOf(c *Catalog, p *openPack) {
	set, err := l.caseSet(p)
	if err != nil {
		l.errs = append(l.errs, err)
		return
	}
	if c.caseSet == nil {
		c.caseSet = func() *cases.Set { return set }
	}
	for _, listed := range set.Listed() {
		if own := slices.ContainsFunc(p.cases, func(f cases.File) bool { return f.Name == listed.File }); !own {
			continue
		}
		if listed.Tickets {
			if s := l.caseTicket(p, listed); s != nil {
				c.addTicket(s)
			}
			continue
		}
		c.addWorkflow(caseWorkflow(p, listed))
	}
}

// caseSet compiles a pack's cases with those of its base.
func (l *loader) caseSet(p *openPack) (*cases.Set, error) {
	files := p.caseFiles()
	if p.base != nil {
		files = slices.Concat(p.base.caseFiles(), files)
	}
	people := map[string]*params.NameList{}
	for language := range l.locales {
		people[language] = p.nameList(language)
	}
	return cases.Load(files, people)
}

// loader contains the input and the results of loading a catalogue.
type loader struct {
	// whole means that the index of the public pack isn't used.
	whole     bool
	locales   map[string]*expr.Locale
	languages map[string]*expr.Language
	base      *openPack
	// scenarios contains the files of the scenarios so far, by id.
	scenarios map[string]string
	tickets   []parsed[ticketFile]
	workflows []parsed[workflowFile]
	cases     []*openPack // the packs with generated cases
	canaries  []canary
	digest    digester
	errs      []error
}

// parsed is a decoded file that isn't compiled yet.
type parsed[T any] struct {
	pack  *openPack
	file  string
	value *T
}

// compileAll compiles scenarios, several at a time, and returns those without a fault. Scenarios
// and faults are in the order of the files.
func compileAll[F, S any](l *loader, files []parsed[F], compile func(*loader, parsed[F]) *S) []*S {
	own, compiled := make([]loader, len(files)), make([]*S, len(files))
	atOnce(len(files), func(i int) {
		own[i] = *l.fork()
		compiled[i] = compile(&own[i], files[i])
	})
	for i := range own {
		l.errs = append(l.errs, own[i].errs...)
	}
	return slices.DeleteFunc(compiled, func(s *S) bool { return s == nil })
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

func newLoader() (*loader, error) {
	l := &loader{locales: expr.ListLocales(), languages: map[string]*expr.Language{}, scenarios: map[string]string{},
		digest: digester{sha256.New()}}
	for _, lang := range slices.Sorted(maps.Keys(l.locales)) {
		language, err := expr.NewLanguage(l.locales[lang])
		if err != nil {
			return nil, fmt.Errorf("making the expression language for %s: %w", lang, err)
		}
		l.languages[lang] = language
	}
	return l, nil
}

// open reads a pack's files and decodes them.
func (l *loader) open(c *Catalog, p pack.Pack) *openPack {
	contents, errs := pack.Read(p)
	pack := &openPack{info: contents.Info, salt: contents.Salt, names: map[string]func() *params.NameList{},
		articles: map[string]func() *article{}, base: l.base}
	first := l.base == nil
	if first {
		l.base = pack
	}
	l.errs = append(l.errs, errs...)
	if first && !l.whole && p == PublicPack() && l.openIndexed(c, pack, contents.Files) {
		return pack
	}
	l.digest.text(pack.salt)
	l.sources(pack, contents.Files)
	return pack
}

// sources decodes files.
func (l *loader) sources(pack *openPack, files []pack.File) {
	documents := make([]document, len(files))
	atOnce(len(documents), func(i int) { documents[i] = parseFile(files[i]) })
	for i, s := range files {
		l.source(pack, s, documents[i])
	}
}

// document is the YAML of a file, nil for an article and after a fault, which the decoder recorded.
type document struct {
	*source.Decoder

	root *yaml.Node
}

func parseFile(f pack.File) document {
	d := &source.Decoder{File: f.File}
	if f.Folder == "kb" {
		return document{d, nil}
	}
	return document{d, d.Root(f.Data)}
}

// source decodes a file.
func (l *loader) source(pack *openPack, s pack.File, y document) {
	if s.Folder != "kb" && y.root == nil {
		l.errs = append(l.errs, y.Errs...)
		return
	}
	switch s.Folder {
	case "families", "modifiers":
		l.caseFile(pack, s, y)
	case "names":
		if cases.IsKind(source.KindAt(y.root)) {
			l.caseFile(pack, s, y)
			return
		}
		if list := l.nameFile(pack, s, y); list != nil {
			pack.names[s.ID] = func() *params.NameList { return list }
		}
	case "kb":
		l.digest.text(s.Canonical())
		if a := l.article(s.File, s.ID, s.Data); a != nil {
			pack.articles[s.ID] = func() *article { return a }
			l.canaries = append(l.canaries, canary{pack, s.File, a.canary})
			l.digest.article(a)
		}
	case "tickets":
		f := new(ticketFile)
		if l.decode(pack, s, y, f, &f.Metadata.baseMetadata) && l.first(s, f.Metadata.Pos) {
			l.tickets = append(l.tickets, parsed[ticketFile]{pack, s.File, f})
		}
	default:
		f := new(workflowFile)
		if l.decode(pack, s, y, f, &f.Metadata.baseMetadata) && l.first(s, f.Metadata.Pos) {
			l.workflows = append(l.workflows, parsed[workflowFile]{pack, s.File, f})
		}
	}
}

// nameFile decodes a list of names, or returns nil.
func (l *loader) nameFile(pack *openPack, s pack.File, y document) *params.NameList {
	var f nameFile
	l.decode(pack, s, y, &f, &f.Metadata)
	if len(f.People.Given) == 0 || len(f.People.Family) == 0 {
		l.errs = append(l.errs, fmt.Errorf("%s: people needs at least one given and one family name", s.File))
		return nil
	}
	list := params.NewNameList(f.People.Given, f.People.Family)
	for _, e := range f.Lists {
		list.Lists[e.Name] = e.Value
	}
	return list
}

// queueID matches the ids of queues, which a reset names in the same field as scenarios.
var queueID = regexp.MustCompile(`^Q[0-9]{3}$`)

// first reports whether a scenario's id is new. Ids that differ only in case count as the same, as
// on some file systems.
func (l *loader) first(s pack.File, pos source.Position) bool {
	id := strings.ToUpper(s.ID)
	if queueID.MatchString(id) {
		l.errs = append(l.errs, pos.Errorf("the id %q is reserved for a queue: give the scenario one that isn't Q "+
			"and three digits", s.ID))
		return false
	}
	if other, taken := l.scenarios[id]; taken {
		l.errs = append(l.errs, pos.Errorf("%s already has the id %q, ignoring case: give one of the two "+
			"scenarios another", other, s.ID))
		return false
	}
	l.scenarios[id] = s.File
	return true
}

// decode decodes a YAML file strictly. After a fault, which it records, it returns false.
func (l *loader) decode(pack *openPack, s pack.File, y document, into any, meta *baseMetadata) bool {
	d := y.Decoder
	if y.root != nil {
		d.Value(y.root, reflect.ValueOf(into).Elem(), "")
		l.digest.text(s.Canonical())
		l.digest.node(y.root, "")
	}
	if len(d.Errs) == 0 {
		checkMetadata(d, meta, s.ID)
	}
	l.canaries = append(l.canaries, canary{pack, s.File, meta.Canary})
	l.errs = append(l.errs, d.Errs...)
	return len(d.Errs) == 0
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

// PublicPack returns the pack that is part of this program.
func PublicPack() pack.Pack { return pack.Pack{Name: "scenarios", FS: embedded} }

// openPack is a pack that is being loaded.
type openPack struct {
	info     pack.Info
	salt     string
	names    map[string]func() *params.NameList
	articles map[string]func() *article
	cases    []cases.File
	// laterCases reads the cases of a pack that is opened by its index.
	laterCases func() []cases.File
	// base is the pack whose articles and names are used if this pack lacks them. It is nil for the
	// base itself.
	base *openPack
}

// nameList returns the pack's own list, or the base's, or nil.
func (p *openPack) nameList(id string) *params.NameList {
	if list := p.names[id]; list != nil {
		return list()
	}
	if p.base == nil {
		return nil
	}
	return p.base.nameList(id)
}

func (p *openPack) caseFiles() []cases.File {
	if p.laterCases != nil {
		return p.laterCases()
	}
	return p.cases
}

// article returns the pack's own article, or the base's, or nil.
func (p *openPack) article(id string) *article {
	if a := p.articles[id]; a != nil {
		return a()
	}
	if p.base == nil {
		return nil
	}
	return p.base.article(id)
}

// errNoPacks means that no pack was given.
var errNoPacks = errors.New("no packs: name at least one")

// ListSplits returns the parts of a catalogue, by the intended use of their scenarios.
func ListSplits() []string { return []string{"public-train", "public-dev", "public-test", "private"} }

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

// digester hashes served and graded content. YAML is hashed by content, with mappings in the order
// of their keys, so that layout and comments don't count.
type digester struct {
	hash.Hash
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

// text hashes a text with its length, so that different lists of texts have different hashes. A
// hash's Write never fails.
func (d digester) text(s string) {
	_, _ = d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
	_, _ = d.Write([]byte(s))
}

func (d digester) node(n *yaml.Node, path string) {
	switch {
	case isUngraded(path):
	case n.Kind == yaml.MappingNode:
		d.mapping(n, path)
	case n.Kind == yaml.SequenceNode:
		d.text("[")
		for _, c := range n.Content {
			d.node(c, path+"[]")
		}
		d.text("]")
	default:
		d.text(n.Tag)
		d.text(n.Value)
	}
}

func (d digester) mapping(n *yaml.Node, path string) {
	byKey := map[string]*yaml.Node{}
	var names []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		names = append(names, n.Content[i].Value)
		byKey[n.Content[i].Value] = n.Content[i+1]
	}
	slices.Sort(names)
	d.text("{")
	for _, name := range names {
		if p := path + "." + name; !isUngraded(p) {
			d.text(name)
			d.node(byKey[name], p)
		}
	}
	d.text("}")
}

func (d digester) article(a *article) {
	d.text(a.title)
	d.text(a.body.Text)
	for _, p := range a.params {
		d.text(p.name)
		d.text(strconv.FormatInt(expr.ToNative[int64](p.value), 10))
	}
}
