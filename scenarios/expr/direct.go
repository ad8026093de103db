package expr

import (
	"slices"
	"strconv"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// direct evaluates an expression without CEL's interpreter, which takes about four times as long.
// It returns nil if it has no value: then CEL's program gives the value or the error.
type direct func(vals Values) ref.Val

// call evaluates the direct form. A function that panics has no value.
func (d direct) call(vals Values) (out ref.Val) {
	defer func() {
		if recover() != nil {
			out = nil
		}
	}()
	return d(vals)
}

// directly makes the direct form of a checked expression. It returns nil for one with a
// comprehension, a literal list or map, or a function of several types.
func (l *language) directly(checked *ast.AST) direct {
	return directPlan{l, checked}.plan(checked.Expr()).run
}

type directPlan struct {
	*language

	checked *ast.AST
}

// planned is the direct form of an expression and, if it depends on no variable, its value.
type planned struct {
	run   direct
	value ref.Val
}

func planConstant(v ref.Val) planned { return planned{func(Values) ref.Val { return v }, v} }

func (p directPlan) plan(e ast.Expr) planned {
	reference := p.checked.ReferenceMap()[e.ID()]
	switch e.Kind() {
	case ast.LiteralKind:
		return planConstant(e.AsLiteral())
	case ast.IdentKind:
		if reference != nil && reference.Value == nil && p.checked.GetType(e.ID()).Kind() != types.TypeKind {
			name := reference.Name
			return planned{run: func(vals Values) ref.Val { return vals[name] }}
		}
	case ast.SelectKind:
		if of := p.plan(e.AsSelect().Operand()); reference == nil && of.run != nil && !e.AsSelect().IsTestOnly() {
			return planned{run: selectField(of.run, e.AsSelect().FieldName())}
		}
	case ast.CallKind:
		return p.planCall(e.AsCall(), reference)
	case ast.UnspecifiedExprKind, ast.ComprehensionKind, ast.ListKind, ast.MapKind, ast.StructKind:
	}
	return planned{}
}

// selectField returns a text of a map of texts.
func selectField(of direct, name string) direct {
	return func(vals Values) ref.Val {
		if of := of(vals); of != nil {
			if texts, ok := of.Value().(map[string]string); ok {
				if text, ok := texts[name]; ok {
					return types.String(text)
				}
			}
		}
		return nil
	}
}

// planCall plans a call. One that depends on no variable is evaluated once.
func (p directPlan) planCall(call ast.CallExpr, reference *ast.ReferenceInfo) planned {
	args := slices.Clone(call.Args())
	if call.IsMemberFunction() {
		args = slices.Insert(args, 0, call.Target())
	}
	runs, depends := make([]direct, len(args)), false
	for i, arg := range args {
		arg := p.plan(arg)
		if arg.run == nil {
			return planned{}
		}
		runs[i], depends = arg.run, depends || arg.value == nil
	}
	run := p.bind(call.FunctionName(), reference, runs)
	if run == nil || depends {
		return planned{run: run}
	}
	if v := run.call(nil); v != nil {
		return planConstant(v)
	}
	return planned{run: run}
}

// bind returns the call of a function with arguments, or nil.
func (p directPlan) bind(function string, reference *ast.ReferenceInfo, args []direct) direct {
	switch function {
	case operators.LogicalAnd:
		return planLogical(args, types.False)
	case operators.LogicalOr:
		return planLogical(args, types.True)
	case operators.Conditional:
		return planChoice(args[0], args[1], args[2])
	case operators.Equals:
		return ofTwo(args, types.Equal)
	case operators.NotEquals:
		return ofTwo(args, func(a, b ref.Val) ref.Val { return types.Bool(types.Equal(a, b) != types.True) })
	}
	if reference == nil || len(reference.OverloadIDs) != 1 {
		return nil
	}
	overload := reference.OverloadIDs[0]
	if f, ok := intFunctions[overload]; ok {
		return ofTwo(args, onInts(f))
	}
	f, found := p.functions.FindOverload(overload)
	if !found { // all overloads have one implementation
		f, found = p.functions.FindOverload(function)
	}
	switch {
	case overload == overloads.IntToString:
		return ofOne(args[0], intToText)
	case overload == overloads.TimestampToHours:
		return ofOne(args[0], hourOf)
	case !found || f.NonStrict:
		return nil
	case len(args) == 1 && f.Unary != nil:
		return ofOne(args[0], func(a ref.Val) ref.Val {
			if f.OperandTrait != 0 && !a.Type().HasTrait(f.OperandTrait) {
				return nil
			}
			return f.Unary(a)
		})
	case len(args) == 2 && f.Binary != nil:
		return ofTwo(args, func(a, b ref.Val) ref.Val {
			if f.OperandTrait != 0 && !a.Type().HasTrait(f.OperandTrait) {
				return nil
			}
			return f.Binary(a, b)
		})
	case f.Unary == nil && f.Binary == nil && f.Function != nil && f.OperandTrait == 0:
		return ofAll(args, f.Function)
	}
	return nil
}

// planLogical is a disjunction or conjunction of two: decided is the value that one of them
// decides.
func planLogical(args []direct, decided types.Bool) direct {
	return func(vals Values) ref.Val {
		for _, arg := range args {
			if v, ok := arg(vals).(types.Bool); !ok {
				return nil
			} else if v == decided {
				return decided
			}
		}
		return !decided
	}
}

func planChoice(condition, yes, no direct) direct {
	return func(vals Values) ref.Val {
		switch condition(vals) {
		case types.True:
			return yes(vals)
		case types.False:
			return no(vals)
		}
		return nil
	}
}

func ofOne(arg direct, f functions.UnaryOp) direct {
	return func(vals Values) ref.Val {
		a := arg(vals)
		if a == nil {
			return nil
		}
		return withoutError(f(a))
	}
}

func ofTwo(args []direct, f functions.BinaryOp) direct {
	left, right := args[0], args[1]
	return func(vals Values) ref.Val {
		a, b := left(vals), right(vals)
		if a == nil || b == nil {
			return nil
		}
		return withoutError(f(a, b))
	}
}

func ofAll(args []direct, f functions.FunctionOp) direct {
	return func(vals Values) ref.Val {
		values := make([]ref.Val, len(args))
		for i, arg := range args {
			if values[i] = arg(vals); values[i] == nil {
				return nil
			}
		}
		return withoutError(f(values...))
	}
}

// withoutError returns nil in place of an error.
func withoutError(v ref.Val) ref.Val {
	if v == nil || types.IsUnknownOrError(v) {
		return nil
	}
	return v
}

// intFunctions are the functions of two whole numbers.
var intFunctions = map[string]func(a, b types.Int) ref.Val{
	overloads.AddInt64:           func(a, b types.Int) ref.Val { return a.Add(b) },
	overloads.SubtractInt64:      func(a, b types.Int) ref.Val { return a.Subtract(b) },
	overloads.MultiplyInt64:      func(a, b types.Int) ref.Val { return a.Multiply(b) },
	overloads.DivideInt64:        func(a, b types.Int) ref.Val { return a.Divide(b) },
	overloads.ModuloInt64:        func(a, b types.Int) ref.Val { return a.Modulo(b) },
	overloads.LessInt64:          func(a, b types.Int) ref.Val { return types.Bool(a < b) },
	overloads.LessEqualsInt64:    func(a, b types.Int) ref.Val { return types.Bool(a <= b) },
	overloads.GreaterInt64:       func(a, b types.Int) ref.Val { return types.Bool(a > b) },
	overloads.GreaterEqualsInt64: func(a, b types.Int) ref.Val { return types.Bool(a >= b) },
}

func onInts(f func(a, b types.Int) ref.Val) functions.BinaryOp {
	return func(a, b ref.Val) ref.Val {
		x, isInt := a.(types.Int)
		y, areInts := b.(types.Int)
		if !isInt || !areInts {
			return nil
		}
		return f(x, y)
	}
}

func intToText(v ref.Val) ref.Val {
	n, ok := v.(types.Int)
	if !ok {
		return nil
	}
	return types.String(strconv.FormatInt(int64(n), 10))
}

func hourOf(v ref.Val) ref.Val {
	t, ok := v.(types.Timestamp)
	if !ok {
		return nil
	}
	return types.Int(t.UTC().Hour())
}
