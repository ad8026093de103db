package text

import (
	"testing"
	"time"
)

// TestImpossibleDates checks that numbers which can't be a day, such as versions and sections, are
// not read as one. An impossible day with a full year is a date, so that it counts as invented.
func TestImpossibleDates(t *testing.T) {
	tests := map[string]map[string]int64{
		"en": {
			"The radio is Zigbee 3.0.":      -1,
			"It runs 4.13.":                 -1,
			"See 3.14.15 for that.":         -1,
			"Version 13.13.2026 is out.":    -1,
			"On 2026-13-01 it came.":        -1,
			"On 2026-02-30 it came.":        20260230,
			"On 30.02.2026 it came.":        20260230,
			"On 2/30/2026 it came.":         20260230,
			"On 31.04.2026 it came.":        20260431,
			"On 0.4.2026 it came.":          -1,
			"Its version is 2026-00-10.":    -1,
			"On 29.02.2024 it came.":        20240229,
			"On 29.02.2025 it came.":        20250229,
			"Section 31.04.15 says so.":     -1,
			"On 31.03.15 it came.":          20150331,
			"On 31.12.2026 it came.":        20261231,
			"On 12/31/2026 it came.":        20261231,
			"On 31/12/2026 it came.":        20261231,
			"By February 29 it is there.":   229,
			"By February 30 it is there.":   230,
			"By 31 April it is there.":      431,
			"By 29 February 2025 it comes.": 20250229,
			"By April 30 it is there.":      430,
		},
		"de": {
			"Der Funk ist Zigbee 3.0.":    -1,
			"Das ist Zigbee 3.0. Danke.":  -1,
			"Es läuft 4.13. Danke.":       -1,
			"Das war am 31.2. im Lager.":  -1,
			"Das war am 31.3. im Lager.":  331,
			"Das war am 29.2. im Lager.":  229,
			"Das war am 30. Februar.":     230,
			"Das war am 29. Februar.":     229,
			"Das war am 29.02.2026 dort.": 20260229,
			"Die Version ist 4.8.1.":      -1,
		},
		"es": {
			"La radio es Zigbee 3.0.": -1,
			"Fue el 31/04/2026.":      20260431,
			"Fue el 30 de abril.":     430,
			"Fue el 31 de abril.":     431,
			"Fue el 30/04/2026 allí.": 20260430,
		},
		"fr": {
			"La radio est Zigbee 3.0.": -1,
			"Le 31/06/2026 au soir.":   20260631,
			"Le 31 juin au soir.":      631,
			"Le 30 juin au soir.":      630,
		},
	}
	lexicons := loadLexicons()
	for language, cases := range tests {
		for text, want := range cases {
			got := int64(-1)
			for _, c := range valuesOf(text, lexicons[language]) {
				if c.Kind == DateValue {
					got = c.Amount
				}
			}
			if got != want {
				t.Errorf("%s: %q states the date %d, want %d", language, text, got, want)
			}
		}
	}
}

// Business days are counted by weeks, as if one by one.
func TestShiftByBusinessDays(t *testing.T) {
	monday := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for n := 1; n <= maxDerivedDays/7*5; n += 1 + n/20 {
		for day := range 7 {
			for _, sign := range []int{1, -1} {
				from := monday.AddDate(0, 0, day)
				want := from
				for left := n; left > 0; {
					want = want.AddDate(0, 0, sign)
					if w := want.Weekday(); w != time.Saturday && w != time.Sunday {
						left--
					}
				}
				got, ok := Value{Kind: DurationValue, Unit: BusinessDays, Amount: int64(n) * 1000}.Shift(from, sign)
				if !ok || !got.Equal(want) {
					t.Fatalf("%d business days from %s in direction %d: %s, want %s", n, from, sign, got, want)
				}
			}
		}
	}
}
