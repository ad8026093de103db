package score

import (
	"testing"

	"pgregory.net/rapid"
)

func TestIndexSetText(t *testing.T) {
	cases := map[string]struct {
		add  []int64
		want string
	}{
		"empty":              {nil, ""},
		"one":                {[]int64{7}, "7"},
		"a range":            {[]int64{1, 0, 2}, "0-2"},
		"as a Job writes it": {[]int64{14, 3, 1, 2, 0}, "0-3,14"},
		"joins two ranges":   {[]int64{0, 1, 3, 4, 2}, "0-4"},
		"again":              {[]int64{5, 5}, "5"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var s IndexSet
			for _, i := range tc.add {
				s.Add(i)
			}
			if got := s.String(); got != tc.want {
				t.Errorf("text %q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseIndexSetRefuses(t *testing.T) {
	for _, text := range []string{"-", "a", "1-", "-1", "2-1", "1-1", "0,1", "0-3,2", "3,1", "01", "+1", " 1", "1,",
		"9007199254740992", "1-2-3", "99999999999999999999"} {
		if s, err := ParseIndexSet(text); err == nil {
			t.Errorf("%q decodes to %v", text, s)
		}
	}
}

func TestIndexSetHoldsWhatWasAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		added := rapid.SliceOf(rapid.Int64Range(0, 60)).Draw(t, "indexes")
		var s IndexSet
		want := map[int64]bool{}
		for _, i := range added {
			s.Add(i)
			want[i] = true
		}
		for i := range int64(62) {
			if s.Contains(i) != want[i] {
				t.Fatalf("Contains(%d) = %v after adding %v", i, s.Contains(i), added)
			}
		}
		if s.Len() != int64(len(want)) {
			t.Fatalf("Len() = %d, want %d", s.Len(), len(want))
		}
		again, err := ParseIndexSet(s.String())
		if err != nil || !again.Equal(s) {
			t.Fatalf("%q is read as %q (%v)", s, again, err)
		}
	})
}

func TestIndexSetCloneIsIndependent(t *testing.T) {
	s, err := ParseIndexSet("0-3,7")
	if err != nil {
		t.Fatal(err)
	}
	c := s.Clone()
	c.Add(4)
	if s.String() != "0-3,7" || c.String() != "0-4,7" {
		t.Errorf("original %q, clone %q", s, c)
	}
}

func FuzzParseIndexSet(f *testing.F) {
	for _, seed := range []string{"", "0", "0-12,14", "3,5-6", "0-9007199254740991"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseIndexSet(text)
		if err == nil && s.String() != text {
			t.Errorf("%q decodes to %q", text, s)
		}
	})
}

func TestIndexSetAt(t *testing.T) {
	s, err := ParseIndexSet("1-3,7,10-11")
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []int64{1, 2, 3, 7, 10, 11} {
		if got, ok := s.At(int64(n)); got != want || !ok {
			t.Errorf("At(%d) = %d, %v; want %d", n, got, ok, want)
		}
	}
	for _, n := range []int64{-1, 6} {
		if got, ok := s.At(n); ok {
			t.Errorf("At(%d) = %d, want none", n, got)
		}
	}
}
