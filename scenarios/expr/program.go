package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// language is the CEL environment of one language, and what its programs share.
type language struct {
	env       *cel.Env
	functions interpreter.Dispatcher
	// interpreter has the functions. Each program of cel.Env has a table of its own, which costs
	// more to make and to keep than the rest of the program.
	interpreter interpreter.Interpreter
}

func newLanguage(loc *Locale) (*language, error) {
	env, err := newEnvironment(loc)
	if err != nil {
		return nil, err
	}
	functions := interpreter.NewDispatcher()
	for _, f := range env.Functions() {
		bindings, err := f.Bindings()
		if err == nil {
			err = functions.Add(bindings...)
		}
		if err != nil {
			return nil, err
		}
	}
	attributes := interpreter.NewAttributeFactory(env.Container, env.CELTypeAdapter(), env.CELTypeProvider())
	return &language{env: env, functions: functions, interpreter: interpreter.NewInterpreter(functions, env.Container,
		env.CELTypeProvider(), env.CELTypeAdapter(), attributes)}, nil
}

// Program is a planned expression.
type Program interface {
	// Eval evaluates it. The variables are an interpreter.Activation.
	Eval(vars any) (ref.Val, *cel.EvalDetails, error)
}

// shared is a program without a limit of its cost.
type shared struct{ interpreter.InterpretableV2 }

// Eval returns errors as cel.Program does.
func (p shared) Eval(vars any) (out ref.Val, _ *cel.EvalDetails, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("internal error: %v", cause)
		}
	}()
	frame, err := interpreter.NewExecutionFrame(vars)
	if err != nil {
		return nil, nil, err
	}
	defer frame.Close()
	out = p.Exec(frame)
	if fault, failed := out.(*types.Err); failed {
		return out, nil, fault
	}
	return out, nil, nil
}

// program plans a checked expression and returns its maximum cost. The cost is tracked during the
// evaluation, which takes twice the time, only if it isn't known to be small; else the expression
// may have a direct form.
func (l *language) program(env *cel.Env, ast *cel.Ast) (Program, direct, uint64, error) {
	estimate, err := env.EstimateCost(ast, bounds{})
	if err != nil {
		return nil, nil, 0, fmt.Errorf("estimating its cost: %w", err)
	}
	if estimate.Max <= maxCost {
		p, err := l.interpreter.NewInterpretable(ast.NativeRep())
		return shared{p}, l.directly(ast.NativeRep()), estimate.Max, err
	}
	p, err := env.Program(ast, cel.CostLimit(maxCost))
	return p, nil, maxCost, err
}
