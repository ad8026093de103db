package prose

import (
	"testing"

	"github.com/csenv/csenv/envserver/grader/text"
)

// commitments are a language's labelled sentences of testdata/promises.yaml.
type commitments struct {
	Promises []string `yaml:"promises"`
	Harmless []string `yaml:"harmless"`
}

func TestCommitments(t *testing.T) {
	all := loadCommitments(t)
	lexicons := newLibraries()
	for _, language := range text.Languages() {
		c := all[language]
		if len(c.Promises) < 25 || len(c.Harmless) < 25 {
			t.Errorf("%s has %d promises and %d other sentences, want 25 of each", language, len(c.Promises),
				len(c.Harmless))
		}
		promised := func(wording string) bool {
			lib := lexicons[language]()
			return len(lib.promiseReader(text.Parse(text.Fold(text.Normalise(wording)), lib.Lexicon)).promises()) > 0
		}
		for _, wording := range c.Promises {
			if !promised(wording) {
				t.Errorf("%s: %q does not count as a promise", language, wording)
			}
		}
		for _, wording := range c.Harmless {
			if promised(wording) {
				t.Errorf("%s: %q counts as a promise", language, wording)
			}
		}
	}
}
