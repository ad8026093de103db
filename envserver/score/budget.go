package score

import "math/big"

// Prices are decimals: the prices of a million tokens of prompts and of answers.
type Prices struct {
	Input  string `json:"input"`
	Output string `json:"output"`
}

// Cost is the cost of tokens, nil if a price isn't a decimal.
func (p Prices) Cost(t Tokens) *big.Rat {
	input, ok := new(big.Rat).SetString(p.Input)
	output, is := new(big.Rat).SetString(p.Output)
	if !ok || !is {
		return nil
	}
	input.Mul(input, big.NewRat(t.Prompt, 1_000_000))
	return input.Add(input, output.Mul(output, big.NewRat(t.Completion, 1_000_000)))
}

// Budget bounds what the model of a run's agent may use. The zero value bounds nothing.
type Budget struct {
	// MaxTokens bounds tokens of prompts and answers together, 0 for no bound.
	MaxTokens int64 `json:"maxTokens,omitempty"`
	// MaxCost, a decimal, bounds the cost by the prices, "" for no bound.
	MaxCost string `json:"maxCost,omitempty"`
	Prices  Prices `json:"prices,omitzero"`
	// Used are the tokens that are no longer available: shards that are counted have spent them.
	Used Tokens `json:"used,omitzero"`
}

// Share is what is left of the budget for some of the episodes that share it evenly.
func (b Budget) Share(episodes, of int64) Limit {
	var l Limit
	part := big.NewRat(episodes, max(of, 1))
	add := func(most *big.Rat, measure func(Tokens) *big.Rat) {
		left := new(big.Rat).Sub(most, measure(b.Used))
		l.bounds = append(l.bounds, bound{left.Mul(left, part), measure})
	}
	if b.MaxTokens > 0 {
		add(new(big.Rat).SetInt64(b.MaxTokens), func(t Tokens) *big.Rat {
			return new(big.Rat).SetInt64(t.Prompt + t.Completion)
		})
	}
	if most, ok := new(big.Rat).SetString(b.MaxCost); ok && b.Prices.Cost(Tokens{}) != nil {
		add(most, b.Prices.Cost)
	}
	return l
}

// Limit bounds tokens. The zero value bounds nothing.
type Limit struct{ bounds []bound }

type bound struct {
	most    *big.Rat
	measure func(Tokens) *big.Rat
}

// Allows reports whether the tokens are within the limit.
func (l Limit) Allows(t Tokens) bool { return l.compare(t) <= 0 }

// Leaves reports whether the tokens leave something of the limit.
func (l Limit) Leaves(t Tokens) bool { return l.compare(t) < 0 }

// compare is positive for tokens above the limit, 0 at it and negative below.
func (l Limit) compare(t Tokens) int {
	most := -1
	for _, b := range l.bounds {
		most = max(most, b.measure(t).Cmp(b.most))
	}
	return most
}
