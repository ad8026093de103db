package v1alpha1_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/csenv/csenv/api/v1alpha1"
)

func TestParseNumber(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want, wantErr string }{
		"a fraction":                  {"0.7", "0.7", ""},
		"redundant zeros":             {"0.700", "0.7", ""},
		"a whole number":              {"10", "10", ""},
		"a whole number with zeros":   {"1.000000", "1", ""},
		"nothing":                     {"0", "0", ""},
		"the last digit":              {"0.000001", "0.000001", ""},
		"as the API server sends it":  {"1e-06", "0.000001", ""},
		"an exponent":                 {"12.5E-1", "1.25", ""},
		"below zero":                  {"-0.5", "-0.5", ""},
		"one digit above the maximum": {"0.1234567", "", "0.1234567 has more than 6 digits after the point"},
		"an exponent too low":         {"1e-7", "", "more than 6 digits"},
		"an exponent beyond reason":   {"1e400", "", `"1e400" is not a decimal number`},
		"endless digits":              {"0." + strings.Repeat("3", 21), "", "is not a decimal number"},
		"no number":                   {"NaN", "", `"NaN" is not a decimal number: write it like 0.75`},
		"without an end":              {"Inf", "", "is not a decimal number"},
		"another base":                {"0x1p-2", "", "is not a decimal number"},
		"a fraction of two numbers":   {"1/2", "", "is not a decimal number"},
		"a comma":                     {"0,7", "", "is not a decimal number"},
		"empty":                       {"", "", "is not a decimal number"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := v1alpha1.ParseNumber(tt.text)
			if got.Text != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if text := errorText(err); (text == "") != (tt.wantErr == "") || !strings.Contains(text, tt.wantErr) {
				t.Errorf("error %q, want %q", text, tt.wantErr)
			}
		})
	}
}

func TestMillionths(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0": 0, "1": 1_000_000, "0.8": 800_000, "-0.02": -20_000,
		"-0.000001": -1, "0.0250": 25_000, "-1": -1_000_000} {
		if got, err := (v1alpha1.Number{Text: text}).Millionths(); err != nil || got != want {
			t.Errorf("%s is %d, %v; want %d", text, got, err, want)
		}
	}
	if got, err := (v1alpha1.Number{}).Millionths(); err == nil {
		t.Errorf("nothing is %d", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A number keeps its value on all ways to and from the API server.
func TestNumberInJSON(t *testing.T) {
	t.Parallel()
	want := v1alpha1.Threshold{Metric: v1alpha1.MeanScoreMetric, Min: v1alpha1.Number{Text: "0.000015"}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if text := `{"metric":"meanScore","min":0.000015}`; string(data) != text {
		t.Errorf("wrote %s, want %s", data, text)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&want)
	if err != nil {
		t.Fatal(err)
	}
	if object["min"] != 0.000015 {
		t.Errorf("converted to %#v", object["min"])
	}
	var got v1alpha1.Threshold
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := json.Marshal(v1alpha1.Threshold{Min: v1alpha1.Number{Text: "NaN"}}); err == nil {
		t.Error("NaN was written")
	}
	if data, err := json.Marshal(v1alpha1.Threshold{Metric: "meanScore"}); err != nil || strings.Contains(string(data),
		"min") {
		t.Errorf("unset: %s, %v", data, err)
	}
}

// One object with a string, which an earlier schema allowed, must not make a list unreadable.
func TestNumberStoredAsString(t *testing.T) {
	t.Parallel()
	var got v1alpha1.Threshold
	if err := json.Unmarshal([]byte(`{"min": "0.70"}`), &got); err != nil || got.Min.Text != "0.7" {
		t.Errorf("got %q, %v", got.Min, err)
	}
	if err := json.Unmarshal([]byte(`{"min": "low"}`), &got); err == nil {
		t.Errorf("got %q", got.Min)
	}
}
