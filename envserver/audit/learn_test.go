package audit

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/testkit"
)

// TestLearn checks that the learner learns the training split, and that the others are protected
// from what it learns.
func TestLearn(t *testing.T) {
	c := testkit.Catalog(t)
	const steps = 24
	got, err := Learn(t.Context(), c, steps, 1)
	if err != nil {
		t.Fatal(err)
	}
	first, last := got.Curve[0], got.Curve[len(got.Curve)-1]
	t.Logf("%+v", *got)
	if first.Step != 0 || first.Train > 400 || last.Step != steps || last.Train < 900 {
		t.Errorf("the training score rises from %+v to %+v, want at most 400 and at least 900", first, last)
	}
	if last.HeldOut > 700 || got.Gap != last.Train-last.HeldOut || got.Gap < 200 {
		t.Errorf("held out %d, gap %d, want at most 700 and at least 200", last.HeldOut, got.Gap)
	}
	if len(got.Splits) != 3 || got.Splits[0].Split != trainSplit || got.Splits[0].Score != last.Train {
		t.Errorf("splits %+v, want the training split first, and two others", got.Splits)
	}
	again, err := Learn(t.Context(), c, steps, 1)
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("the second result differs (-first +second), %v:\n%s", err, diff)
	}
	if other, err := Learn(t.Context(), c, steps, 2); err != nil || cmp.Equal(got, other) {
		t.Errorf("another seed gives the same result, %v", err)
	}
}

func TestLearnNothing(t *testing.T) {
	if got, err := Learn(t.Context(), small(t), 1, 0); got != nil || err != nil {
		t.Errorf("Learn() = %v, %v, want nothing without tickets to measure on", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Learn(ctx, testkit.Catalog(t), 1, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

func TestAdvantages(t *testing.T) {
	tests := map[string]struct{ rewards, want [groupSize]float64 }{
		"equal rewards":   {[groupSize]float64{1, 1, 1, 1, 1, 1, 1, 1}, [groupSize]float64{}},
		"half of them":    {[groupSize]float64{1, 0, 1, 0, 1, 0, 1, 0}, [groupSize]float64{1, -1, 1, -1, 1, -1, 1, -1}},
		"a shifted scale": {[groupSize]float64{.5, .3, .5, .3, .5, .3, .5, .3}, [groupSize]float64{1, -1, 1, -1, 1, -1, 1, -1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := advantages(tt.rewards)
			for i := range got {
				if d := got[i] - tt.want[i]; d > 1e-9 || d < -1e-9 {
					t.Fatalf("advantages %v, want %v", got, tt.want)
				}
			}
		})
	}
}
