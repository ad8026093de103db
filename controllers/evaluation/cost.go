package evaluation

import (
	"math/big"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Cost is the cost of tokens as a decimal of four digits, "" without prices or tokens.
func Cost(prices *v1alpha1.Prices, tokens *v1alpha1.Tokens) string {
	if prices == nil || tokens == nil {
		return ""
	}
	sum := new(big.Rat)
	for _, part := range []struct {
		price  string
		tokens int64
	}{{prices.Input, tokens.Prompt}, {prices.Output, tokens.Completion}} {
		price, ok := new(big.Rat).SetString(part.price)
		if !ok {
			return "" // the API server refuses it
		}
		sum.Add(sum, price.Mul(price, big.NewRat(part.tokens, 1_000_000)))
	}
	return sum.FloatString(4)
}
