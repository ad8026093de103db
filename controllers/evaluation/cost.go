package evaluation

import (
	"fmt"
	"math/big"

	"github.com/csenv/csenv/api/v1alpha1"
)

// FormatCost is the cost of tokens as a decimal of four digits, "" without prices or tokens.
func FormatCost(prices *v1alpha1.Prices, tokens *v1alpha1.Tokens) string {
	cost := costOf(prices, tokens)
	if cost == nil {
		return ""
	}
	return cost.FloatString(4)
}

// costOf is nil without prices or tokens.
func costOf(prices *v1alpha1.Prices, tokens *v1alpha1.Tokens) *big.Rat {
	if prices == nil || tokens == nil {
		return nil
	}
	sum := new(big.Rat)
	for _, part := range []struct {
		price  string
		tokens int64
	}{{prices.Input, tokens.Prompt}, {prices.Output, tokens.Completion}} {
		price, ok := new(big.Rat).SetString(part.price)
		if !ok {
			return nil // the API server refuses it
		}
		sum.Add(sum, price.Mul(price, big.NewRat(part.tokens, 1_000_000)))
	}
	return sum
}

// OverBudget says which part of its budget a run with these tokens has exceeded, "" for none.
func OverBudget(spec *v1alpha1.EvaluationRunSpec, tokens *v1alpha1.Tokens) string {
	if spec.Budget == nil || tokens == nil {
		return ""
	}
	if most, used := spec.Budget.MaxTokens, tokens.Prompt+tokens.Completion; most != nil && used > *most {
		return fmt.Sprintf("%d tokens are used, and budget.maxTokens is %d", used, *most)
	}
	most, ok := new(big.Rat).SetString(spec.Budget.MaxCost)
	if cost := costOf(spec.Prices, tokens); ok && cost != nil && cost.Cmp(most) > 0 {
		return fmt.Sprintf("the cost is %s, and budget.maxCost is %s", cost.FloatString(4), spec.Budget.MaxCost)
	}
	return ""
}

// BudgetExceeded is the outcome of a run that is over its budget for that reason. The details are
// how far it is and how it can go on.
func BudgetExceeded(why, details string) Outcome {
	return Outcome{Failed, v1alpha1.ReasonBudgetExceeded, fmt.Sprintf("The run is over its budget: %s. %s", why,
		details)}
}
