package bitstream

import (
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type sample struct {
	Flag    bool
	Count   int
	Number  int64
	Signed  int64
	Natural string
	Raw     [3]byte
	Column  [4]int64
	Texts   []string
}

func (v *sample) code(s *Stream) {
	s.Flag(&v.Flag)
	s.Int(&v.Count)
	s.Number(&v.Number)
	s.Signed(&v.Signed)
	n, _ := new(big.Int).SetString(v.Natural, 16)
	if n == nil {
		n = new(big.Int)
	}
	s.Natural(n)
	v.Natural = n.Text(16)
	s.Raw(v.Raw[:])
	s.Column(v.Column[:])
	CodeList(s, &v.Texts, MinTextBits, s.Text)
}

func TestRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_-]{0,40}`), rapid.StringN(0, 40, 200),
		rapid.Just(DigestPrefix+strings.Repeat("0f", 32)), rapid.Just(DigestPrefix+strings.Repeat("0F", 32)))
	small := rapid.Int64Range(0, 1<<20)
	rapid.Check(t, func(t *rapid.T) {
		want := sample{
			Flag: rapid.Bool().Draw(t, "flag"), Count: rapid.IntRange(0, 1<<40).Draw(t, "count"),
			Number:  rapid.Int64Range(0, 1<<63-1).Draw(t, "number"),
			Signed:  rapid.Int64Range(-1<<61, 1<<61).Draw(t, "signed"),
			Natural: rapid.StringMatching(`[1-9a-f][0-9a-f]{0,60}`).Draw(t, "natural"),
			Raw:     [3]byte{0, 7, 255}, Texts: rapid.SliceOfN(text, 1, 5).Draw(t, "texts"),
			Column: [4]int64{small.Draw(t, "a"), small.Draw(t, "b"), small.Draw(t, "c"), 0},
		}
		var got sample
		data := Encode(3, want.code)
		if err := Decode(data, Versions{2, 3}, got.code, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		if err := Decode(data, Versions{4, 5}, new(sample).code, func() error { return nil }); err == nil {
			t.Fatal("no error for another version")
		}
	})
}
