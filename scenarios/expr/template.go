package expr

import (
	"strings"

	"github.com/csenv/csenv/scenarios/source"
)

// Template is a literal, or a scalar with expressions in {{ }}.
type Template struct {
	source.Raw
	Parts []part
}

// part is a literal or, if expr is set, an expression.
type part struct {
	literal string
	Expr    *Expression
}

// Single returns the expression of a template that contains nothing else.
func (t *Template) Single() *Expression {
	if len(t.Parts) == 1 {
		return t.Parts[0].Expr
	}
	return nil
}

// Literal reports whether the template contains no expression.
func (t *Template) Literal() bool { return len(t.Parts) == 0 }

// braced reports whether the author wrote an expression, even one that did not compile.
func (t *Template) braced() bool { return strings.Contains(t.Text, "{{") }

// Template compiles the expressions of a text.
func (c *Compiler) Template(r source.Raw) Template {
	t := Template{Raw: r}
	rest, offset := r.Text, 0
	for {
		start := strings.Index(rest, "{{")
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
			t.Parts = append(t.Parts, part{Expr: e})
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
		t.Parts = append(t.Parts, part{literal: s})
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
