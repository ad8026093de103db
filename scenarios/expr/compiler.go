// Package expr is the expression language of scenario files: CEL with functions for money, dates
// and ids, templates with expressions in {{ }}, and the field types that hold them. A Compiler
// checks and compiles the fields of one scenario; a Scope evaluates them over the values of one
// instance.
package expr

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"

	"github.com/csenv/csenv/scenarios/source"
)

// Compiler turns the templates and expressions of one scenario into programs. It collects faults
// rather than stopping at one.
type Compiler struct {
	loc      *Locale
	language *language
	env      *cel.Env
	Names    []string
	pending  []cel.EnvOption
	// moment extends env by the variables of predicates. It is created on first use.
	moment *cel.Env
	cache  map[string]*Expression
	// Times is the number of times that an instance may evaluate the compiled expression, 0 for
	// once, and cost the maximum cost of all its evaluations.
	Times int
	Cost  uint64
	Errs  []error
}

// NewCompiler returns a compiler for one scenario.
func NewCompiler(loc *Locale) *Compiler {
	loc.once.Do(func() {
		var err error
		if loc.language, err = newLanguage(loc); err != nil {
			panic(err) // the built-in functions fit together
		}
	})
	return &Compiler{language: loc.language, env: loc.language.env, loc: loc, cache: map[string]*Expression{}}
}

// Declare adds a variable for the expressions compiled after it.
func (c *Compiler) Declare(name string, t *cel.Type) {
	c.Names = append(c.Names, name)
	c.pending = append(c.pending, cel.Variable(name, t))
}

// Failf records a fault.
func (c *Compiler) Failf(p source.Position, format string, args ...any) {
	c.Errs = append(c.Errs, p.Errorf(format, args...))
}

func (c *Compiler) environment() (*cel.Env, error) {
	if len(c.pending) > 0 {
		env, err := c.env.Extend(c.pending...)
		if err != nil {
			return nil, err
		}
		c.env, c.pending = env, nil
	}
	return c.env, nil
}

// Expression is a compiled CEL expression.
type Expression struct {
	Source  string
	pos     source.Position
	Program Program
	Type    *cel.Type
	// Variables are the names that it refers to.
	Variables []string
	// direct is nil for an expression that needs CEL's interpreter.
	direct direct
	cost   uint64
}

// Compile compiles source. It returns nil after a fault.
func (c *Compiler) Compile(pos source.Position, source string) *Expression {
	source = strings.TrimSpace(source)
	if e, ok := c.cache[source]; ok {
		c.Spend(e.cost)
		again := *e
		again.pos = pos
		return &again
	}
	env, err := c.environment()
	if err != nil {
		c.Failf(pos, "declaring variables: %v", err)
		return nil
	}
	e := c.compileIn(env, pos, source)
	if e != nil {
		c.cache[source] = e
	}
	return e
}

func (c *Compiler) compileIn(env *cel.Env, pos source.Position, source string) *Expression {
	if source == "" {
		c.Failf(pos, "an empty expression")
		return nil
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		c.Failf(pos, "expression %.120q: %s", source, c.explain(issues))
		return nil
	}
	p, direct, cost, err := c.language.program(env, ast)
	if err != nil {
		c.Failf(pos, "expression %.120q: %v", source, err)
		return nil
	}
	c.Spend(cost)
	return &Expression{Source: source, pos: pos, Program: p, Type: ast.OutputType(), Variables: listVariables(ast),
		direct: direct, cost: cost}
}

// listVariables returns the names of the variables of an expression, sorted.
func listVariables(ast *cel.Ast) []string {
	names := map[string]bool{}
	for _, reference := range ast.NativeRep().ReferenceMap() {
		if len(reference.OverloadIDs) == 0 {
			names[reference.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// explain shortens CEL's issues to their messages and suggests the nearest name for an unknown one.
func (c *Compiler) explain(issues *cel.Issues) string {
	msgs := make([]string, 0, len(issues.Errors()))
	for _, e := range issues.Errors() {
		msg := strings.TrimSuffix(e.Message, " (in container '')")
		if _, name, ok := strings.Cut(msg, "undeclared reference to '"); ok {
			msg += source.SuggestWord(strings.TrimSuffix(name, "'"), c.Names)
		}
		msgs = append(msgs, msg)
	}
	return strings.Join(msgs, "; ")
}

// MomentVariables returns the names of the variables of a Moment.
func MomentVariables() []string {
	return []string{"orders", "payments", "refunds", "cases", "replied", "message", "args"}
}

func (c *Compiler) boolean(e *Expression) *Expression {
	if e != nil && !FitsType(e.Type, cel.BoolType) {
		c.Failf(e.pos, "expression %.120q is %s, want bool", e.Source, cel.FormatCELType(e.Type))
	}
	return e
}

// FitsType reports whether t is dynamic or one of the wanted types.
func FitsType(t *cel.Type, want ...*cel.Type) bool {
	return t.IsExactType(cel.DynType) || slices.ContainsFunc(want, t.IsExactType)
}
