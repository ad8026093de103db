package cases_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	for _, pattern := range []string{"../families/*.yaml", "../modifiers/*.yaml", "../names/cases.yaml", "../names/replies-*.yaml",
		"../names/talk-*.yaml"} {
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
	for language := range expr.Locales {
		out[language] = params.NewNameList([]string{"Ada", "Bo"}, []string{"Finch", "Moss"})
	}
	return out
}

// TestCompositions instantiates every composition of the catalogue, in each language with texts.
func TestCompositions(t *testing.T) {
	for language, least := range map[string]int{"en": 2000, "de": 1000, "es": 1000, "fr": 1000} {
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

// TestLaterRequests requires that a later request is said in the answer to the question for the
// order, and not at all if the question isn't needed.
func TestLaterRequests(t *testing.T) {
	set := load(t)
	for _, tc := range []struct {
		family    string
		modifiers []string
		want      string // of the answer
		kinds     []string
	}{
		{"double-charge", []string{"later-email"}, "@", []string{"double_charge", "email_change"}},
		{"return", []string{"later-cancel-plan"}, "Watch ", []string{"return", "cancel_subscription"}},
		{"coupon", []string{"later-warranty"}, "warranty", []string{"coupon", "warranty_end"}},
		{"double-charge", []string{"later-email", "fraud-review"}, "", []string{"double_charge"}},
		{"coupon", []string{"later-warranty", "stranger"}, "warranty", []string{"coupon", "warranty_end"}},
	} {
		c, err := set.Compose(tc.family, tc.modifiers, "en")
		if err != nil {
			t.Fatal(err)
		}
		for seed := range int64(20) {
			got, err := c.Instantiate("salt", seed)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, r := range got.Requests {
				kinds = append(kinds, r.Kind)
			}
			answer := ""
			if len(got.Questions) > 0 {
				answer = got.Questions[0].Answer
			}
			if !slices.Equal(kinds, tc.kinds) || !strings.Contains(answer, tc.want) || (tc.want == "") != (answer == "") ||
				tc.want != "" && strings.Contains(got.Query, tc.want) {
				t.Errorf("%s seed %d: requests %v, query %q, answer %q", c.Key(), seed, kinds, got.Query, answer)
			}
		}
	}
	if _, err := set.Compose("return", []string{"later-cancel-plan", "no-order-number"}, "en"); err == nil {
		t.Error("an order that is left out twice is no error")
	}
}

// TestGeneratedListsDistract generates a list in which some modifiers change nothing about what is
// right, so that agents can't infer that everything matters.
func TestGeneratedListsDistract(t *testing.T) {
	set := load(t)
	all, err := set.Generate(cases.Options{List: "own", Salt: "salt", Language: "en", PerDifficulty: 12, Private: true,
		Families: []string{"cancel-order", "return", "data-request"}})
	if err != nil {
		t.Fatal(err)
	}
	idle := 0
	for _, c := range all {
		distracts, err := c.Distracts()
		if err != nil {
			t.Fatal(err)
		}
		if distracts {
			idle++
		}
	}
	if share := 100 * idle / len(all); share < 5 || share > 15 {
		t.Errorf("%d of %d cases have a modifier that changes nothing, want about a tenth", idle, len(all))
	}
}

// TestReplies requires that replies differ in their greetings, that a second request has a part of
// its own, and that one hand-over is told once.
func TestReplies(t *testing.T) {
	set := load(t)
	const second = "Now to your other request."
	greetings := map[string]bool{}
	for _, modifiers := range [][]string{{}, {"also-warranty"}, {"also-warranty", "stranger"}} {
		c, err := set.Compose("coupon", modifiers, "en")
		if err != nil {
			t.Fatal(err)
		}
		for seed := range int64(20) {
			got, err := c.Instantiate("salt", seed)
			if err != nil {
				t.Fatal(err)
			}
			greeting, _, _ := strings.Cut(got.Reply, ".")
			greetings[strings.ReplaceAll(strings.ReplaceAll(greeting, "Ada", ""), "Bo", "")] = true
			parts := strings.Count(got.Reply, second) + 1
			if want := len(strings.Split(got.Decision.Outcome, "+")); parts != want || strings.Contains(got.Reply, "{{") {
				t.Errorf("%s seed %d: %d parts, want %d: %s", c.Key(), seed, parts, want, got.Reply)
			}
			for _, f := range got.Facts {
				if !strings.Contains(got.Reply, f.Value) {
					t.Errorf("%s seed %d: the reply lacks %s: %s", c.Key(), seed, f.Value, got.Reply)
				}
			}
		}
	}
	if len(greetings) < 2 {
		t.Errorf("the greetings are %v, want two", greetings)
	}
}
