package prose

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/grader/text"
)

// TestArticlesAreReadAsAWhole compares the extract of paragraphs with that of the article.
func TestArticlesAreReadAsAWhole(t *testing.T) {
	lib := newLibraries()["en"]()
	for _, s := range publicTickets(t) {
		for seed := range int64(4) {
			ticket, err := s.Instantiate(seed)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range ticket.Articles {
				var parts [2][]any
				for i, e := range []*extract{lib.newExtract(a.Body), lib.article(a.Body)} {
					values := slices.Clone(e.values)
					for k := range values {
						values[k].At = text.Span{}
					}
					parts[i] = []any{values, e.hashes, e.keys}
				}
				if diff := cmp.Diff(parts[0], parts[1]); diff != "" {
					t.Errorf("%s, seed %d, %s (-whole +paragraphs):\n%s", s.ID, seed, a.ID, diff)
				}
			}
		}
	}
}
