package score

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestDecimal(t *testing.T) {
	cases := map[int64]string{
		0: "0.0000", One: "1.0000", 731_249: "0.7312", 731_250: "0.7313", 731_251: "0.7313", 49: "0.0000", 50: "0.0001",
		-50: "-0.0001", -49: "0.0000", -731_250: "-0.7313", 12_345_678: "12.3457", 999_950: "1.0000",
		math.MinInt64: "-9223372036854.7758", math.MaxInt64: "9223372036854.7758",
	}
	for micro, want := range cases {
		if got := FormatDecimal(micro); got != want {
			t.Errorf("Decimal(%d) = %q, want %q", micro, got, want)
		}
	}
}

func TestThousandths(t *testing.T) {
	if got := FormatThousandths(1250); got != "1.250" {
		t.Errorf("1250 thousandths are %q", got)
	}
}

func TestParseDecimal(t *testing.T) {
	cases := map[string]int64{"0": 0, "1": One, "1.0": One, "1.000000": One, "0.8": 800_000, "0.333333": 333_333,
		"0.000001": 1}
	for text, want := range cases {
		if got, err := ParseDecimal(text); err != nil || got != want {
			t.Errorf("ParseDecimal(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", ".", "0.", ".5", "1.1", "1.000001", "2", "-0.1", "0.1234567", "1e-1", "0,8",
		" 0.8"} {
		if got, err := ParseDecimal(text); err == nil {
			t.Errorf("ParseDecimal(%q) = %d, want an error", text, got)
		}
	}
}

func TestParseDecimalReadsDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micro := 100 * rapid.Int64Range(0, One/100).Draw(t, "ten-thousandths")
		got, err := ParseDecimal(FormatDecimal(micro))
		if err != nil || got != micro {
			t.Fatalf("%s decodes to %d (%v), want %d", FormatDecimal(micro), got, err, micro)
		}
	})
}
