package offline

import "testing"

// commitments are a language's labelled sentences of testdata/promises.yaml.
type commitments struct {
	Promises []string `yaml:"promises"`
	Harmless []string `yaml:"harmless"`
}

func TestCommitments(t *testing.T) {
	all := loadCommitments(t)
	lexicons := newLibraries()
	for _, language := range languages() {
		c := all[language]
		if len(c.Promises) < 25 || len(c.Harmless) < 25 {
			t.Errorf("%s has %d promises and %d other sentences, want 25 of each", language, len(c.Promises),
				len(c.Harmless))
		}
		promised := func(text string) bool {
			lib := lexicons[language]
			return len(lib.promiseReader(parse(fold(normalise(text)), lib.lexicon)).promises()) > 0
		}
		for _, text := range c.Promises {
			if !promised(text) {
				t.Errorf("%s: %q promises nothing", language, text)
			}
		}
		for _, text := range c.Harmless {
			if promised(text) {
				t.Errorf("%s: %q is taken for a promise", language, text)
			}
		}
	}
}
