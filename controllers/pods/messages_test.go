package pods_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/controllers/pods"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"lines":              {"one\n\n\ttwo  three\r\n", "one two three"},
		"terminal sequences": {"\x1b[31mred\x1b[0m\x00", "[31mred [0m"},
		"nothing":            {" \n", "(no message)"},
		"long":               {strings.Repeat("ä", 400), strings.Repeat("ä", 298) + "…"},
		"broken":             {"a\xffb", "a\uFFFDb"},
		"broken lines":       {"a\xff\x00b\n\n  c", "a\uFFFD b c"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := pods.QuoteMessage(tt.text); got != tt.want {
				t.Errorf("Quote(%q) = %q, want %q", tt.text, got, tt.want)
			}
		})
	}
}

func TestShortenKeepsCharactersWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		limit := rapid.IntRange(4, 40).Draw(t, "limit")
		for name, got := range map[string]string{"Shorten": pods.ShortenText(text, limit), "Clip": pods.ClipText(text, limit)} {
			if len(got) > limit || !utf8.ValidString(got) {
				t.Fatalf("%s(%q, %d) = %q", name, text, limit, got)
			}
			if len(text) <= limit && got != text {
				t.Fatalf("%s(%q, %d) = %q, although the text fits", name, text, limit, got)
			}
		}
	})
}

func TestLastWords(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("a line of the log\n", 100)
	tests := map[string]struct{ log, want string }{
		"a short log":  {"error: timeout\n", "error: timeout\n"},
		"a panic":      {filler + "panic: out of luck\ngoroutine 1", "panic: out of luck\ngoroutine 1"},
		"a fatal one":  {filler + "fatal error: deadlock\n" + filler, "fatal error: deadlock\n" + filler},
		"the last one": {"panic: first\npanic: second", "panic: second"},
		"a long log":   {filler, filler[len(filler)-pods.MaxQuote:]},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := pods.LastWords(tt.log); got != tt.want {
				t.Errorf("LastWords = %q, want %q", got, tt.want)
			}
		})
	}
}
