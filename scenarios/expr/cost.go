package expr

import (
	"slices"
	"unicode/utf8"

	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/csenv/csenv/scenarios/source"
)

// Limits of the cost of expressions, in CEL's units of about 50 ns. Packs may be untrusted: without
// limits, one expression could occupy a server forever.
const (
	// maxCost bounds one evaluation.
	maxCost = 100_000
	// maxInstanceCost bounds, in the worst case, all evaluations of one instance together, the
	// repeated draws included.
	maxInstanceCost = 10_000_000
	// maxExpression bounds the source of one expression, in characters.
	maxExpression = 8192
	// MaxTries bounds the draws of one instance until its constraints hold.
	MaxTries = 500
	// maxDrawn bounds a variable: the bytes of its texts and the number of its items.
	maxDrawn = 8192
)

// bounds gives the estimator the maximum sizes of variables and of the results of functions.
type bounds struct{}

// EstimateSize uses the limit of Values.Set for drawn values. The variables of a Moment have none.
func (bounds) EstimateSize(node checker.AstNode) *checker.SizeEstimate {
	path := node.Path()
	if len(path) == 0 || slices.Contains(MomentVariables(), path[0]) {
		return nil
	}
	return &checker.SizeEstimate{Max: maxDrawn}
}

// EstimateCallCost estimates the cost of functions that return text.
func (bounds) EstimateCallCost(function, overload string, _ *checker.AstNode,
	args []checker.AstNode) *checker.CallEstimate {
	one := checker.FixedCostEstimate(1)
	switch function {
	case "money", "number", "day", "weekday", "clock", "iso":
		return &checker.CallEstimate{CostEstimate: one, ResultSize: &checker.SizeEstimate{Max: 64}}
	case "draw_id":
		return &checker.CallEstimate{CostEstimate: checker.FixedCostEstimate(20),
			ResultSize: &checker.SizeEstimate{Max: maxIDLength}}
	case "lower", "upper":
		// Changing the case can make a letter longer, in bytes.
		if size := args[0].ComputedSize(); size != nil {
			return &checker.CallEstimate{CostEstimate: size.MultiplyByCostFactor(1),
				ResultSize: &checker.SizeEstimate{Max: utf8.UTFMax * size.Max}}
		}
	}
	if overload == "int64_to_string" || overload == "timestamp_to_string" {
		return &checker.CallEstimate{CostEstimate: one, ResultSize: &checker.SizeEstimate{Max: 64}}
	}
	return nil
}

// Spend adds the maximum cost of an expression of the scenario.
func (c *Compiler) Spend(cost uint64) {
	if c.Cost += cost * uint64(max(c.Times, 1)); c.Cost < cost {
		c.Cost = maxInstanceCost + 1
	}
}

// CheckCost reports a fault if the scenario's instances could take too long to make.
func (c *Compiler) CheckCost(pos source.Position) {
	if c.Cost > maxInstanceCost {
		c.Failf(pos, "the expressions may cost %d units in all (in params and constraints they count %d times), %d "+
			"are allowed: write fewer or simpler ones", c.Cost, MaxTries, maxInstanceCost)
	}
}

// measureValue returns the size of a drawn value: the bytes of its texts and the number of its
// items.
func measureValue(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case traits.Mapper:
		n := 0
		if texts, ok := v.Value().(map[string]string); ok { // of each person: the iterator takes much longer
			for key, text := range texts {
				n += 1 + len(key) + len(text)
			}
			return n
		}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			n += 1 + measureValue(key) + measureValue(v.Get(key))
		}
		return n
	case traits.Lister:
		n := 0
		for it := v.Iterator(); it.HasNext() == types.True; {
			n += 1 + measureValue(it.Next())
		}
		return n
	}
	return 1
}
