package episode_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/testkit"
)

func TestAppendText(t *testing.T) {
	pieces := rapid.SampledFrom([]string{"refund", "<b>&", `"`, `\`, "/", "\n", "\x00", "\x1f", "\x7f", "\b\f\r\t",
		"zoë", "世界", "😀", "\u2028", "\u2029", "\ufffd", "\xff", "\xe2\x80", "\xed\xa0\x80"})
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.OneOf(pieces, rapid.String()), 0, 8).Draw(rt, "text"), "")
		want := testkit.PlainJSON(rt, text)
		if got := string(episode.AppendText([]byte("x"), text)); got != "x"+want {
			rt.Fatalf("%q is written as %s, want %s", text, got, want)
		}
	})
}

func BenchmarkAppendText(b *testing.B) {
	text := strings.Repeat("Dear Zoë,\nI am sorry about the double charge on invoice 48210. ", 16)
	out := make([]byte, 0, 2*len(text))
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		episode.AppendText(out, text)
	}
}
