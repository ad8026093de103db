package object

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What is read as a plain object is what the decoder reads.
func TestPlainObjectsAreReadAsOthers(t *testing.T) {
	for raw, want := range map[string]bool{
		`{}`: true, ` { "a" : "b" , "c":{"d":null} } ` + "\n\t\r": true,
		`{"a":0.50,"b":10,"é":"世"}`:  true,
		`{"a":{"a":{"a":{"a":{}}}}}`: true, `{"a":{"a":{"a":{"a":{"a":1}}}}}`: true,
		`{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}`: false, `{"a":{"a":{"a":[{"a":1}]}}}`: true,
		`{"a":{"a":{"a":{"a":[{"a":1}]}}}}`: false, `{"a":[[[[]]]]}`: true, `{"a":[[[[[[]]]]]]}`: false,
		`{"a":[ ]}`: true, `{"a":[ 1 , "b" , null,{} ] }`: true, `{"a":[1,]}`: false, `{"a":[,]}`: false, `{"a":[1}`: false,
		`{"a":[1 2]}`: false, `{"a":[`: false, `{"a":[1`: false, `{"a":["\n"]}`: false, `{"a":]}`: false,
		`{"a":"\n"}`: false, "{\"a\":\"\xff\"}": false, "{\"\xff\":1}": false, "{\"a\":\"\n\"}": false, `{"a":[]}`: true,
		`{"a":01}`: false, `{"a":1.}`: false, `{"a":-1}`: false, `{"a":1e3}`: false, `{"a":nul}`: false, `{"a":n`: false,
		`{"a":1,}`: false, `{,}`: false, `{"a"}`: false, `{"a":}`: false, `{"a":1}x`: false, `{"a":1`: false,
		`{"a":"`: false, `{"a`: false, `[]`: false, ``: false, `{"a":true}`: false,
	} {
		if got := parsePlain([]byte(raw), Unique) != nil; got != want {
			t.Errorf("%q is plain: %t, want %t", raw, got, want)
		}
		if got := IsPlain([]byte(raw)); got != want {
			t.Errorf("IsPlain(%q) = %t, want %t", raw, got, want)
		}
	}
	pieces := rapid.SampledFrom([]string{`{`, `}`, `{`, `}`, `"a"`, `"a":`, `"b":`, `"é":`, `:`, `,`, `"x"`, `"世"`, `null`,
		`1`, `0.5`, `01`, `-`, `1e3`, ` `, "\n", `[`, `]`, "\"\xff\"", `"\u0041"`, `{"a":1}`})
	rapid.Check(t, func(t *rapid.T) {
		inner := strings.Join(rapid.SliceOfN(pieces, 0, 10).Draw(t, "pieces"), "")
		checkPlain(t, []byte(rapid.SampledFrom([]string{inner, `{` + inner + `}`, `{"a":` + inner + `}`}).Draw(t, "raw")))
	})
}

type fataler interface {
	Fatalf(format string, args ...any)
}

func checkPlain(t fataler, raw []byte) {
	if IsPlain(raw) && !jsontext.Value(raw).IsValid(jsontext.AllowDuplicateNames(true)) {
		t.Fatalf("%q is plain, but no JSON", raw)
	}
	for _, repeats := range []Repeats{Unique, LastCounts} {
		got := parsePlain(slices.Clone(raw), repeats)
		if got == nil {
			continue
		}
		want, err := decodeObject(raw, repeats)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%q: %v (-decoded +plain):\n%s", raw, err, diff)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for name, raw := range map[string]string{
		"plain":   `{"action_type":"check_payment","payload":{"order_id":"LD-1048","payment_id":null}}`,
		"escapes": `{"action_type":"check_payment","payload":{"order_id":"LD\u002d1048","payment_id":null}}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read([]byte(raw), LastCounts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
