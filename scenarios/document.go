package scenarios

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/pack"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// canary is the canary of a data file.
type canary struct {
	pack       *openPack
	file, text string
}

// document is a file of a pack that is being loaded. One goroutine at a time compiles it.
type document struct {
	pack.File
	pack *openPack
	errs []error
	// decoder and root are nil unless keepRoot was called.
	decoder *source.Decoder
	root    *yaml.Node
	// position and canary come from the metadata, once it is decoded.
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

// openPack is a pack that is being loaded.
type openPack struct {
	info      pack.Info
	salt      string
	documents []*document
	// names and articles are the pack's, and the base's where the pack lacks them. They are
	// compiled at their first use.
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

// triedSeeds is the number of seeds that are instantiated while loading, to detect most faulty
// values before an episode is played.
const triedSeeds = 4

// tryOut instantiates a scenario with a few seeds and returns the instance of seed 0, or nil after
// a fault.
func tryOut[T any](d *document, instantiate func(int64) (*T, error)) *T {
	var canonical *T
	for seed := range int64(triedSeeds) {
		t, err := instantiate(seed)
		if err != nil {
			d.errs = append(d.errs, err)
			return nil
		}
		if seed == 0 {
			canonical = t
		}
	}
	return canonical
}

// articleFile is the front matter of kb/<ID>.md.
type articleFile struct {
	Version int                              `yaml:"version"`
	Canary  string                           `yaml:"canary"`
	Params  source.Ordered[articleParamFile] `yaml:"params,optional"`
}

// articleParamFile is a policy number that a scenario may override.
type articleParamFile struct {
	Money string `yaml:"money,optional"`
	Int   *int64 `yaml:"int,optional"`
}

// english is the language of articles, for tickets of every language.
var english = expr.Locales["en"]

// article is a compiled article.
type article struct {
	id, title string
	body      expr.Text
	params    []articleParam
	sections  map[string]bool
	// standard is the article with its default params.
	standard Article
	cost     uint64
	bodies   bodies
}

type articleParam struct {
	name  string
	pos   source.Position
	value ref.Val
}

const frontMatter = "---\n"

// splitArticle separates the front matter, the title and the body, with the line on which the body
// starts.
func splitArticle(file, s string) (front, title, body string, line int, err error) {
	if rest, ok := strings.CutPrefix(s, frontMatter); ok {
		if front, rest, ok = strings.Cut(rest, "\n"+frontMatter); ok {
			body = strings.TrimLeft(rest, "\n")
			line = strings.Count(s[:len(s)-len(body)], "\n") + 1
		}
	}
	heading, ok := strings.CutPrefix(body, "# ")
	if !ok {
		return "", "", "", 0, fmt.Errorf("%s: want front matter between lines of ---, then a first line \"# Title\"",
			file)
	}
	title, body, _ = strings.Cut(heading, "\n")
	trimmed := strings.TrimLeft(body, "\n")
	return front, strings.TrimSpace(title), strings.TrimSpace(trimmed), line + 1 + len(body) - len(trimmed), nil
}

// compileArticle compiles an article. It returns nil if it has no front matter or title.
func (d *document) compileArticle() *article {
	front, title, body, line, err := splitArticle(d.Path, string(d.Data))
	if err != nil {
		d.errs = append(d.errs, err)
		return nil
	}
	decoder := &source.Decoder{File: d.Path}
	var f articleFile
	decoder.Document([]byte("\n"+front), &f)
	d.canary = &f.Canary
	a := &article{id: d.ID, title: title, sections: sectionsOf(body)}
	a.body.Raw = source.Raw{Text: body, Tag: "!!str", Pos: source.Position{File: d.Path, Line: line}}
	c := expr.NewCompiler(english)
	vals := expr.Values{}
	for _, e := range f.Params {
		p := articleParam{name: e.Name, pos: e.Pos, value: e.Value.value(c, e.Pos)}
		a.params = append(a.params, p)
		vals[p.name] = p.value
		c.Declare(p.name, cel.IntType)
	}
	a.body.Compile(c)
	a.cost = c.Cost
	d.errs = slices.Concat(d.errs, decoder.Errs, c.Errs)
	if len(d.errs) == 0 {
		in := &expr.Scope{Vals: vals, Loc: english}
		a.standard = Article{ID: a.id, Title: a.title, Body: in.Text(a.body)}
		if in.Err != nil {
			d.errs = append(d.errs, in.Err)
		}
	}
	return a
}

func (f articleParamFile) value(c *expr.Compiler, pos source.Position) ref.Val {
	switch {
	case f.Money != "" && f.Int == nil:
		cents, err := expr.ParseMoney(f.Money)
		if err != nil {
			c.Failf(pos, "%v", err)
		}
		return types.Int(cents)
	case f.Money == "" && f.Int != nil:
		return types.Int(*f.Int)
	default:
		c.Failf(pos, "a param of an article is {money: \"200.00\"} or {int: 30}")
		return types.IntZero
	}
}

var heading = regexp.MustCompile(`(?m)^## ([0-9]+)\. (.+)$`)

// sectionsOf returns the sections of a body by number and by heading, in lower case with dashes.
func sectionsOf(body string) map[string]bool {
	out := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(body, -1) {
		out[m[1]] = true
		out[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(m[2])), " ", "-")] = true
	}
	return out
}

// shelf contains the articles of one ticket scenario.
type shelf struct {
	articles []*article // by id
	// defaults are the articles' params that the scenario doesn't override, own are the others.
	defaults expr.Values
	own      map[string]bool
}

// pickShared returns the shared values that a ticket takes: now, and the params of its articles.
func (s *shelf) pickShared(shared expr.Values) expr.Values {
	out := expr.Values{}
	if now, ok := shared["now"]; ok {
		out["now"] = now
	}
	for _, a := range s.articles {
		for _, p := range a.params {
			if v, ok := shared[p.name]; ok {
				out[p.name] = v
			}
		}
	}
	return out
}

// maxBodies bounds the bodies that are kept of an article, about 1 KiB each.
const maxBodies = 256

// bodies are the rendered bodies of an article by the values of its params, so that instances with
// the same values share one. The zero value is ready, and safe for concurrent use.
type bodies struct {
	mu       sync.Mutex
	byValues map[string]string
}

func (b *bodies) findBody(values []byte) (body string, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, ok = b.byValues[string(values)]
	return body, ok
}

func (b *bodies) addBody(values []byte, body string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byValues == nil || len(b.byValues) == maxBodies {
		b.byValues = map[string]string{}
	}
	b.byValues[string(values)] = body
}

// renderArticle renders the i-th article with the values of an instance.
func (s *shelf) renderArticle(i int, in *instance) Article {
	a := s.articles[i]
	var buf [64]byte
	values, numbers := buf[:0], true
	for _, p := range a.params {
		v, ok := in.Vals[p.name].(types.Int)
		values, numbers = binary.AppendVarint(values, int64(v)), numbers && ok
	}
	out := Article{ID: a.id, Title: a.title}
	if known, ok := a.bodies.findBody(values); ok && numbers {
		in.Count(a.body.Pos, len(known))
		out.Body = known
		return out
	}
	inner := expr.Scope{Vals: in.Vals, Loc: english, Rendered: in.Rendered}
	out.Body = inner.Text(a.body)
	in.Rendered = inner.Rendered
	if inner.Err != nil {
		in.Fail(inner.Err)
	} else if numbers {
		a.bodies.addBody(values, out.Body)
	}
	return out
}

func newHarms(files []harmFile) []Harm {
	if len(files) == 0 {
		return nil
	}
	out := make([]Harm, len(files))
	for i, f := range files {
		out[i] = Harm(f)
	}
	return out
}

func factIDs(files []factFile) []string {
	ids := make([]string, len(files))
	for i, f := range files {
		ids[i] = f.ID
	}
	return ids
}

func checkNames(c *expr.Compiler, pos source.Position, key string, names, known []string) {
	for _, n := range names {
		if !slices.Contains(known, n) {
			c.Failf(pos, "%s names %q, which doesn't exist%s", key, n, source.SuggestWord(n, known))
		}
	}
}

func checkRange[T cmp.Ordered](c *expr.Compiler, pos source.Position, key string, v, lo, hi T) {
	if v < lo || v > hi {
		c.Failf(pos, "%s must be from %v to %v, got %v", key, lo, hi, v)
	}
}

func checkReferences(c *expr.Compiler, f *referencesFile) {
	for _, b := range f.Bad {
		checkRange(c, b.Text.Pos, "max", b.Max, 0, totalPoints)
	}
}

// checkFacts checks that every fact says what it states.
func checkFacts(c *expr.Compiler, files []factFile) {
	for _, f := range files {
		switch {
		case f.Judged == f.What.Given():
			c.Failf(f.Pos, "fact %s (%s) needs either what, a name of the vocabulary such as team, or judged: true if "+
				"only a model can read it: docs/facts.md lists the names", f.ID, f.Slot)
		case f.Judged && len(f.Also) > 0:
			c.Failf(f.Pos, "fact %s is judged: also belongs to a fact with what", f.ID)
		}
	}
}
