package scenarios

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

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
