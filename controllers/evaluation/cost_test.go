package evaluation

import (
	"math"
	"testing"

	"github.com/csenv/csenv/api/v1alpha1"
)

func TestCost(t *testing.T) {
	for name, tc := range map[string]struct {
		prices *v1alpha1.Prices
		tokens *v1alpha1.Tokens
		want   string
	}{
		"no prices":  {nil, &v1alpha1.Tokens{Prompt: 5}, ""},
		"no tokens":  {&v1alpha1.Prices{Input: "1", Output: "1"}, nil, ""},
		"both":       {&v1alpha1.Prices{Input: "0.15", Output: "0.60"}, &v1alpha1.Tokens{Prompt: 2_000_000, Completion: 500_000}, "0.6000"},
		"rounded":    {&v1alpha1.Prices{Input: "0.15", Output: "0.60"}, &v1alpha1.Tokens{Prompt: 333, Completion: 1}, "0.0001"},
		"free input": {&v1alpha1.Prices{Input: "0", Output: "15"}, &v1alpha1.Tokens{Prompt: 1 << 40, Completion: 1_000}, "0.0150"},
		"very many": {&v1alpha1.Prices{Input: "999999999.999999", Output: "0"}, &v1alpha1.Tokens{Prompt: math.MaxInt64},
			"9223372036854766583627.9631"},
		"no number": {&v1alpha1.Prices{Input: "much", Output: "0"}, &v1alpha1.Tokens{Prompt: 1}, ""},
	} {
		if got := Cost(tc.prices, tc.tokens); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
