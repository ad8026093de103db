package index

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A search over all runs finds the episodes that searches of each run find.
func TestSearch(t *testing.T) {
	folder := t.TempDir()
	runs := []string{runID, "other/run-87654321"}
	for _, id := range runs {
		writeStore(t, folder, id)
	}
	x := openIndex(t, filepath.Join(t.TempDir(), "i.db"))
	update(t, x, folder)
	for _, text := range []string{"word3 ", "timeout ", "word3 common ", "nothing"} {
		found, more, err := x.Search(t.Context(), Search{Text: text, Limit: MaxLimit})
		if err != nil || more {
			t.Fatalf("%s: more %v, %v", text, more, err)
		}
		for _, id := range runs {
			page, err := x.Episodes(t.Context(), Query{Run: id, Text: text, Limit: MaxLimit})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Episodes {
				if !slices.ContainsFunc(found, func(f Found) bool { return f.Run == id && f.Index == e.Index }) {
					t.Errorf("%s: episode %d of %s is not found", text, e.Index, id)
				}
			}
			if text != "nothing" && len(page.Episodes) == 0 {
				t.Errorf("%s: run %s has none", text, id)
			}
		}
		if text == "nothing" && len(found) > 0 {
			t.Errorf("%s: %v", text, found)
		}
	}
	all, _, err := x.Search(t.Context(), Search{Text: "common", Limit: MaxLimit})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		search Search
		want   int
		more   bool
	}{{Search{Text: "common", Limit: 5}, 5, true}, {Search{}, 0, false}, {Search{Text: "comm"}, 0, false},
		{Search{Text: `"*(`}, 0, false},
		{Search{Scenarios: []string{all[0].Scenario}, Text: "nothing", Limit: 1}, 1, true},
		{Search{Reasons: []string{"a/b/c"}}, 0, false}} {
		found, more, err := x.Search(t.Context(), tt.search)
		if err != nil || len(found) != tt.want || more != tt.more {
			t.Errorf("%+v: %d found, more %v, %v", tt.search, len(found), more, err)
		}
	}
	one, _, err := x.Search(t.Context(), Search{Run: runs[1], Text: "common", Limit: MaxLimit})
	if err != nil || len(one) == 0 || len(one) == len(all) || slices.ContainsFunc(one, func(f Found) bool { return f.Run != runs[1] }) {
		t.Errorf("%d episodes of one run, %v", len(one), err)
	}
	for want, s := range map[string]Search{"is not in the index": {Run: "x", Text: "common"}, "shorten it": {Text: strings.Repeat("x", MaxText+1)},
		"choose 1 to": {Text: "x", Limit: MaxLimit + 1}} {
		if _, _, err := x.Search(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
