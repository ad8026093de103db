package stats

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDurationBins(t *testing.T) {
	cases := map[int64]int{-5: 0, 0: 0, 1: 0, 2: 2, 3: 3, 4: 4, 5: 4, 6: 5, 1000: 19, 1024: 20, 1448: 20, 1449: 21,
		1 << 23: 46, 1 << 24: 47, 1 << 62: 47}
	for ms, want := range cases {
		if got := durationBin(ms); got != want {
			t.Errorf("durationBin(%d) = %d, want %d", ms, got, want)
		}
	}
}

func TestDurationsQuantileIsWithinABin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(1, 1<<22), 1, 50).Draw(t, "durations")
		q := rapid.Float64Range(0, 1).Draw(t, "q")
		var d Durations
		for _, v := range values {
			d.Observe(v)
		}
		got, below := d.Quantile(q), 0
		for _, v := range values {
			if v <= got {
				below++
			}
		}
		if float64(below) < q*float64(len(values))-1e-9-1 {
			t.Fatalf("Quantile(%v) = %d has %d of %d values below", q, got, below, len(values))
		}
	})
}

func TestDurationsText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d, left, right Durations
		for _, v := range rapid.SliceOf(rapid.Int64Range(0, 1<<25)).Draw(t, "durations") {
			d.Observe(v)
			if v%2 == 0 {
				left.Observe(v)
			} else {
				right.Observe(v)
			}
		}
		right.Merge(left)
		text, err := right.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got Durations
		if err := got.UnmarshalText(text); err != nil || !got.Equal(d) {
			t.Fatalf("%q decodes to %v (%v), want %v", text, got, err, d)
		}
	})
}

func FuzzDurationsText(f *testing.F) {
	f.Add("")
	f.Add("CGqA")
	f.Fuzz(func(t *testing.T, text string) {
		var d Durations
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		for _, q := range []float64{0, 0.5, 1} {
			if ms := d.Quantile(q); ms < 0 {
				t.Errorf("Quantile(%v) = %d", q, ms)
			}
		}
	})
}
