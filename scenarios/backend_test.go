package scenarios

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/scenarios/expr"
)

func TestMoneyFormsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cents := rapid.Int64Range(-1e13, 1e13).Draw(t, "cents")
		got, err := expr.ParseMoney(Cents(cents).String())
		if err != nil || got != cents {
			t.Fatalf("%s reads as %d, %v", Cents(cents), got, err)
		}
		plain := strings.NewReplacer("$", "", ",", "").Replace(expr.Locales["en"].Money(cents))
		if plain != Cents(cents).String() {
			t.Fatalf("money %s, want the digits of %s", plain, Cents(cents))
		}
	})
}
