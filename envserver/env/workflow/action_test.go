package workflow

import (
	"testing"

	"github.com/csenv/csenv/scenarios"
)

func TestParseCents(t *testing.T) {
	tests := map[string]struct {
		want scenarios.Cents
		ok   bool
	}{
		"12.5": {1250, true}, "12.50": {1250, true}, "$12.50": {1250, true}, "1e2": {10000, true}, "0.07": {7, true},
		"999999999.99": {99999999999, true},
		"12.505":       {}, "0": {}, "-1": {}, "NaN": {}, "Inf": {}, "1e400": {}, "1e10": {}, "12,50": {}, "": {},
		"all":   {},
		"0.001": {}, "0x10p0": {},
	}
	for text, tc := range tests {
		if got, ok := ParseCents(text); got != tc.want || ok != tc.ok {
			t.Errorf("ParseCents(%q) = %v, %v, want %v, %v", text, got, ok, tc.want, tc.ok)
		}
	}
}
