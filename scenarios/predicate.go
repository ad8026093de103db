package scenarios

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
)

// Moment is the input of a predicate: the records and the judged action.
type Moment struct {
	Records *desk.Records
	// Payload is the action's payload, normalised as for WorkflowStep.Accepts. It is nil if a goal
	// is judged.
	Payload map[string]any
	// Replied is true after the terminal reply was sent, and Message is that reply.
	Replied bool
	Message string
}

// Predicate is a CEL expression of a scenario, compiled with the catalogue and bound to the values
// that the seed drew. It is safe for concurrent use.
type Predicate struct {
	// Source is the expression as written.
	Source  string
	program expr.Program
	vars    interpreter.Activation
}

// IsZero reports whether there is no predicate.
func (p Predicate) IsZero() bool { return p.program == nil }

// Holds evaluates the predicate. An error means that the expression refers to missing data, such as
// a payload field that the action doesn't have. A caller that judges an agent's action treats an
// error as false.
func (p Predicate) Holds(m Moment) (bool, error) {
	vars, err := interpreter.NewActivation(m.predicateVariables())
	if err != nil {
		return false, fmt.Errorf("binding %q: %w", p.Source, err)
	}
	out, _, err := p.program.Eval(interpreter.NewHierarchicalActivation(p.vars, vars))
	if err != nil {
		return false, fmt.Errorf("evaluating %q: %w", p.Source, err)
	}
	return out == types.True, nil
}

// predicateVariables are the names that predicates can use in addition to the drawn values.
func (m Moment) predicateVariables() map[string]any {
	payload := m.Payload
	if payload == nil {
		payload = map[string]any{}
	}
	return map[string]any{
		"args": payload, "replied": m.Replied, "message": m.Message,
		"orders": convertRecords(m.Records.Orders,
			orderRecord), "payments": convertRecords(m.Records.Payments, paymentRecord),
		"refunds": convertRecords(m.Records.Refunds,
			refundRecord), "cases": convertRecords(m.Records.Cases, caseRecord),
	}
}

func convertRecords[T any](from []T, record func(T) map[string]any) []any {
	out := make([]any, len(from))
	for i, r := range from {
		out[i] = record(r)
	}
	return out
}

func orderRecord(o desk.Order) map[string]any {
	return map[string]any{"id": o.ID, "status": o.Status, "total": int64(o.Total), "details": o.Details}
}

func paymentRecord(p desk.Payment) map[string]any {
	return map[string]any{"id": p.ID, "order_id": p.OrderID, "status": p.Status, "amount": int64(p.Amount),
		"details": p.Details}
}

func refundRecord(r desk.Refund) map[string]any {
	return map[string]any{"id": r.ID, "order_id": r.OrderID, "payment_id": r.PaymentID, "amount": int64(r.Amount)}
}

func caseRecord(c desk.Escalation) map[string]any {
	return map[string]any{"id": c.ID, "team": c.Team, "order_id": c.OrderID, "reason": c.Reason}
}
