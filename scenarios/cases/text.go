package cases

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/source"
)

// compileText compiles a text of a language over the values of cases.
func (c *compiler) compileText(language string, raw source.Raw) *expr.Text {
	if c.texts[language] == nil {
		c.texts[language] = c.newTexts(language, slices.Sorted(maps.Keys(values())))
	}
	return c.compileWith(c.texts[language], raw)
}

// compileWith compiles a text.
func (c *compiler) compileWith(texts *expr.Compiler, raw source.Raw) *expr.Text {
	t := &expr.Text{Template: expr.Template{Raw: raw}}
	t.Compile(texts)
	c.errs, texts.Errs = append(c.errs, texts.Errs...), nil
	return t
}

// newTexts returns a compiler of texts in a language, with variables that are texts.
func (c *compiler) newTexts(language string, names []string) *expr.Compiler {
	loc := expr.Locales[language]
	if loc == nil { // which is a fault of its own
		loc = expr.Locales[english]
	}
	texts := expr.NewCompiler(loc)
	for _, name := range names {
		texts.Declare(name, cel.StringType)
	}
	return texts
}

// scope renders texts with the values of a case, which it computes when a text has them.
type scope struct {
	expr.Scope
	world *world
}

func newScope(w *world, l *expr.Locale, withheld ...string) *scope {
	return &scope{expr.Scope{Vals: expr.Values{}, Loc: l, Withheld: withheld}, w}
}

func (s *scope) say(t *expr.Text) string {
	for e := range t.Expressions() {
		for _, name := range e.Variables {
			if value := values()[name]; value != nil && s.Vals[name] == nil {
				s.Vals[name] = types.String(value(s.world, s.Loc))
			}
		}
	}
	return s.Text(*t)
}
