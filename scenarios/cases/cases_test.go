package cases_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// namedFile is a file of the catalogue.
type namedFile struct{ name, text string }

func read(tb testing.TB) []namedFile {
	tb.Helper()
	var files []namedFile
	for _, pattern := range []string{"../families/*.yaml", "../modifiers/*.yaml", "../names/cases.yaml", "../names/replies-*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			tb.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				tb.Fatal(err)
			}
			files = append(files, namedFile{path, string(data)})
		}
	}
	return files
}

func compile(files []namedFile) (*cases.Set, error) {
	parsed := make([]cases.File, 0, len(files))
	for _, f := range files {
		d := &source.Decoder{File: f.name}
		parsed = append(parsed, cases.File{Name: f.name, Root: d.Root([]byte(f.text))})
	}
	return cases.Load(parsed, people())
}

func load(tb testing.TB) *cases.Set {
	tb.Helper()
	set, err := compile(read(tb))
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// people are customers in every language.
func people() map[string]*params.NameList {
	out := map[string]*params.NameList{}
	for language := range expr.Locales() {
		out[language] = params.NewNameList([]string{"Ada", "Bo"}, []string{"Finch", "Moss"})
	}
	return out
}

// TestCompositions instantiates every composition of the catalogue, in each language with texts.
func TestCompositions(t *testing.T) {
	for language, least := range map[string]int{"en": 2000, "de": 1000, "es": 1000} {
		t.Run(language, func(t *testing.T) { testCompositions(t, language, least) })
	}
}

func testCompositions(t *testing.T, language string, least int) {
	outcomes := map[string]int{}
	n, steps := 0, map[int]int{}
	all := slices.Collect(load(t).All(2, language))
	if len(all) < least {
		t.Errorf("%d compositions, want at least %d", len(all), least)
	}
	for _, c := range all {
		for seed := range int64(8) {
			got, err := c.Instantiate("salt", seed)
			if err != nil {
				t.Fatal(err)
			}
			n++
			outcomes[got.Decision.Outcome]++
			steps[len(got.Decision.Reads)+len(got.Decision.Effects)+1]++
			if seed == 0 && n%40 == 1 && testing.Verbose() {
				t.Logf("%s\n%s\n%+v\n%s", c.Key(), got.Query, got.Decision, got.Reply)
			}
		}
	}
	t.Logf("%d compositions, %d cases, outcomes %v, steps %v", len(all), n, outcomes, steps)
}

func BenchmarkInstantiate(b *testing.B) {
	all := slices.Collect(load(b).All(3, "en"))
	for i := 0; b.Loop(); i++ {
		if _, err := all[i%len(all)].Instantiate("salt", int64(i)); err != nil {
			b.Fatal(err)
		}
	}
}
