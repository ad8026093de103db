package evaluation

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// WriteCosts writes the costs of a status's tokens, which follow from the prices of the spec.
func WriteCosts(status *v1alpha1.EvaluationRunStatus, spec *v1alpha1.EvaluationRunSpec) {
	status.Cost = FormatCost(spec.Prices, status.Tokens)
	if c := status.Customer; c != nil {
		c.Cost = FormatCost(spec.CustomerPrices, c.Tokens)
	}
}

// FormatCost is the cost of tokens as a decimal of four digits, "" without prices or tokens.
func FormatCost(prices *v1alpha1.Prices, tokens *v1alpha1.Tokens) string {
	if prices == nil || tokens == nil {
		return ""
	}
	cost := score.Prices(*prices).Cost(score.Tokens(*tokens))
	if cost == nil {
		return "" // the API server refuses such prices
	}
	return cost.FloatString(4)
}

// BudgetOf is the budget of a run whose counted shards have used tokens. It is nil without one.
func BudgetOf(spec *v1alpha1.EvaluationRunSpec, used score.Tokens) *score.Budget {
	if spec.Budget == nil {
		return nil
	}
	budget := &score.Budget{MaxTokens: ptr.Deref(spec.Budget.MaxTokens, 0), MaxCost: spec.Budget.MaxCost, Used: used}
	if budget.MaxCost != "" {
		budget.Prices = score.Prices(ptr.Deref(spec.Prices, v1alpha1.Prices{}))
	}
	return budget
}

// HasBudgetLeft reports whether a run that has used tokens may use more.
func HasBudgetLeft(spec *v1alpha1.EvaluationRunSpec, used score.Tokens) bool {
	budget := BudgetOf(spec, used)
	return budget == nil || budget.Share(1, 1).Leaves(score.Tokens{})
}

// describeBudget says what a run has used of its budget.
func describeBudget(spec *v1alpha1.EvaluationRunSpec, used score.Tokens) string {
	var parts []string
	if most := spec.Budget.MaxTokens; most != nil {
		parts = append(parts, fmt.Sprintf("%d tokens are used, and budget.maxTokens is %d", used.Prompt+used.Completion,
			*most))
	}
	if most := spec.Budget.MaxCost; most != "" {
		parts = append(parts, fmt.Sprintf("the cost is %s, and budget.maxCost (--max-cost) is %s",
			FormatCost(spec.Prices, new(v1alpha1.Tokens(used))), most))
	}
	return strings.Join(parts, "; ")
}

// BudgetExceeded is the outcome of a run that its budget stops. The details are how far it is and
// how it can go on.
func BudgetExceeded(spec *v1alpha1.EvaluationRunSpec, used score.Tokens, details string) Outcome {
	return Outcome{Failed, v1alpha1.ReasonBudgetExceeded, fmt.Sprintf("The budget is used up: %s. %s",
		describeBudget(spec, used), details)}
}

// WithinBudgetCondition says of a run that has ended whether it has used more than its budget,
// false of a run without one.
func WithinBudgetCondition(spec *v1alpha1.EvaluationRunSpec, used *v1alpha1.Tokens) (metav1.Condition, bool) {
	tokens := score.Tokens(ptr.Deref(used, v1alpha1.Tokens{}))
	budget := BudgetOf(spec, tokens)
	if budget == nil {
		return metav1.Condition{}, false
	}
	message := describeBudget(spec, tokens) + "."
	if budget.Share(1, 1).Allows(score.Tokens{}) {
		return NewCondition(v1alpha1.ConditionWithinBudget, metav1.ConditionTrue, v1alpha1.ReasonWithinBudget,
			message), true
	}
	return NewCondition(v1alpha1.ConditionWithinBudget, metav1.ConditionFalse, v1alpha1.ReasonBudgetExceeded,
		message), true
}
