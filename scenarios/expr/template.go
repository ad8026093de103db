package expr

import (
	"iter"
	"slices"
	"strings"

	"github.com/csenv/csenv/scenarios/source"
)

// Template is a literal, or a scalar with expressions in {{ }}. What is in [[ ]] is left out if it
// has a variable that the scope withholds.
type Template struct {
	source.Raw
	parts []part
}

// part is a literal, an expression or a template in [[ ]].
type part struct {
	literal  string
	expr     *Expression
	optional *Template
}

// Expressions yields the expressions of the template, with those in [[ ]].
func (t *Template) Expressions() iter.Seq[*Expression] {
	return func(yield func(*Expression) bool) {
		for _, p := range t.parts {
			if p.expr != nil && !yield(p.expr) {
				return
			}
			if p.optional != nil {
				for e := range p.optional.Expressions() {
					if !yield(e) {
						return
					}
				}
			}
		}
	}
}

// uses reports whether an expression has one of the variables.
func (t *Template) uses(names []string) bool {
	for e := range t.Expressions() {
		if slices.ContainsFunc(e.Variables, func(name string) bool { return slices.Contains(names, name) }) {
			return true
		}
	}
	return false
}

// Single returns the expression of a template that contains nothing else.
func (t *Template) Single() *Expression {
	if len(t.parts) == 1 {
		return t.parts[0].expr
	}
	return nil
}

// Literal reports whether the template contains no expression.
func (t *Template) Literal() bool { return len(t.parts) == 0 }

// braced reports whether the author wrote an expression, even one that did not compile.
func (t *Template) braced() bool { return strings.Contains(t.Text, "{{") }

// Template compiles the expressions of a text.
func (c *Compiler) Template(r source.Raw) Template {
	t := Template{Raw: r}
	rest, offset := r.Text, 0
	for {
		start := strings.Index(rest, "{{")
		if left := strings.Index(rest, "[["); left >= 0 && (start < 0 || left < start) {
			right := strings.Index(rest[left:], "]]")
			if right < 0 {
				c.Failf(r.Line(offset+left), "[[ without its ]]")
				return t
			}
			t.literalPart(c, rest[:left], offset)
			inner := c.Template(source.Raw{Text: rest[left+2 : left+right], Tag: r.Tag, Pos: r.Line(offset + left)})
			t.parts = append(t.parts, part{optional: &inner})
			offset += left + right + 2
			rest = r.Text[offset:]
			continue
		}
		if start < 0 {
			break
		}
		end := expressionEnd(rest[start+2:])
		if end < 0 {
			c.Failf(r.Line(offset+start), "{{ without its }}")
			return t
		}
		if strings.Contains(rest[start+2:start+2+end], "{{") {
			c.Failf(r.Line(offset+start), "{{ within {{ }}: join the pieces with +")
		}
		t.literalPart(c, rest[:start], offset)
		if e := c.Compile(r.Line(offset+start), rest[start+2:start+2+end]); e != nil {
			t.parts = append(t.parts, part{expr: e})
		}
		offset += start + end + 4
		rest = r.Text[offset:]
	}
	if offset > 0 || strings.Contains(rest, "}}") {
		t.literalPart(c, rest, offset)
	}
	return t
}

func (t *Template) literalPart(c *Compiler, s string, offset int) {
	if i := strings.Index(s, "}}"); i >= 0 {
		c.Failf(t.Line(offset+i), "}} without its {{")
	}
	if s != "" {
		t.parts = append(t.parts, part{literal: s})
	}
}

// expressionEnd finds the }} that closes an expression, skipping quotes and braces within it.
func expressionEnd(s string) int {
	var quote byte
	depth := 0
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case quote != 0:
			switch ch {
			case '\\':
				i++
			case quote:
				quote = 0
			}
		case ch == '\'' || ch == '"':
			quote = ch
		case ch == '{':
			depth++
		case ch == '}' && depth > 0:
			depth--
		case strings.HasPrefix(s[i:], "}}"):
			return i
		}
	}
	return -1
}
