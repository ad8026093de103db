package evaluation

import (
	"math"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
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
		if got := FormatCost(tc.prices, tc.tokens); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestBudget(t *testing.T) {
	prices := &v1alpha1.Prices{Input: "1", Output: "10"}
	tokens := &v1alpha1.Tokens{Prompt: 900_000, Completion: 100_000} // cost 1.9
	of := func(most int64) *v1alpha1.Budget { return &v1alpha1.Budget{MaxTokens: &most} }
	for name, tc := range map[string]struct {
		spec   v1alpha1.EvaluationRunSpec
		tokens *v1alpha1.Tokens
		left   bool
		want   string
	}{
		"no budget":    {v1alpha1.EvaluationRunSpec{}, tokens, true, ""},
		"nothing used": {v1alpha1.EvaluationRunSpec{Budget: of(1)}, nil, true, "True: 0 tokens are used, and budget.maxTokens is 1."},
		"all used": {v1alpha1.EvaluationRunSpec{Budget: of(1_000_000)}, tokens, false,
			"True: 1000000 tokens are used, and budget.maxTokens is 1000000."},
		"one too many": {v1alpha1.EvaluationRunSpec{Budget: of(999_999)}, tokens, false,
			"False: 1000000 tokens are used, and budget.maxTokens is 999999."},
		"as dear as allowed": {v1alpha1.EvaluationRunSpec{Prices: prices, Budget: &v1alpha1.Budget{MaxCost: "1.90"}}, tokens, false,
			"True: the cost is 1.9000, and budget.maxCost (--max-cost) is 1.90."},
		"too dear": {v1alpha1.EvaluationRunSpec{Prices: prices, Budget: &v1alpha1.Budget{MaxCost: "1.899999"}}, tokens, false,
			"False: the cost is 1.9000, and budget.maxCost (--max-cost) is 1.899999."},
		"cheap enough": {v1alpha1.EvaluationRunSpec{Prices: prices, Budget: &v1alpha1.Budget{MaxCost: "1.900001"}}, tokens, true,
			"True: the cost is 1.9000, and budget.maxCost (--max-cost) is 1.900001."},
	} {
		used := score.Tokens(ptr.Deref(tc.tokens, v1alpha1.Tokens{}))
		if left := HasBudgetLeft(&tc.spec, used); left != tc.left {
			t.Errorf("%s: left %v", name, left)
		}
		c, limited := WithinBudgetCondition(&tc.spec, tc.tokens)
		if got := string(c.Status) + ": " + c.Message; limited != (tc.want != "") || limited && got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestAgentCondition(t *testing.T) {
	for name, tc := range map[string]struct {
		seen   string
		reason string
		want   string
	}{
		"nothing seen":  {"", v1alpha1.ReasonRunning, ""},
		"rehearsed":     {"It answers.", v1alpha1.ReasonRunning, "True/Rehearsed: It answers."},
		"refused":       {"", v1alpha1.ReasonAgentRefused, "False/AgentRefused: 401"},
		"refused later": {"It answers.", v1alpha1.ReasonAgentRefused, "False/AgentRefused: 401"},
	} {
		c, known := AgentCondition(tc.seen, Outcome{Failed, tc.reason, "401"})
		got := string(c.Status) + "/" + c.Reason + ": " + c.Message
		if known != (tc.want != "") || known && got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
