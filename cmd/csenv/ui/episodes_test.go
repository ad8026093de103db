package ui

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The list of episodes is filtered and sorted on the server, and links keep the filter.
func TestEpisodeList(t *testing.T) {
	s, paths := played(t, map[string][]string{
		"mixed": {"ticket-resolve", "--scenario", "B06,B07,S03", "--agent", "heuristic", "--trials", "2"}})
	list := paths["mixed"] + "/episodes"
	for name, tt := range map[string]struct {
		path      string
		status    int
		want, not []string
	}{
		"all": {list, 200, []string{"1 to 6 of 6 episodes", `aria-sort="ascending"`, ">B06<", ">S03<", "ticket-resolve"}, nil},
		"of a scenario": {list + "?scenario=B06", 200, []string{"1 to 2 of 2 episodes (of 6 in the run)",
			"/episodes/1?scenario=B06"}, []string{">S03<"}},
		"of a category":     {list + "?category=shipping", 200, []string{"1 to 2 of 2", ">S03<"}, []string{">B06<"}},
		"of none":           {list + "?category=%3Cscript%3E", 200, []string{"No episode matches"}, []string{"<script>"}},
		"found by a word":   {list + "?text=b07", 200, []string{">B07<"}, []string{">B06<"}},
		"with odd words":    {list + "?text=%22+OR+%28*+NEAR", 200, []string{"No episode matches"}, nil},
		"by score":          {list + "?sort=score&order=desc", 200, []string{`aria-sort="descending"`}, nil},
		"missed":            {list + "?result=missed&max=0.9", 200, []string{"1 to 6 of 6"}, nil},
		"with a high score": {list + "?min=0.95", 200, []string{"No episode matches"}, nil},
		"a wrong sort":      {list + "?sort=mood", 400, []string{"can&#39;t be sorted by"}, nil},
		"a wrong score":     {list + "?min=high", 400, []string{"is not a number from 0 to 1"}, nil},
		"a wrong page":      {list + "?page=-1", 400, []string{"pages are numbered from 1"}, nil},
		"a neighbour in the list": {list + "/1?scenario=B06", 200, []string{"2 of 2",
			list + `/0?scenario=B06" rel="prev" data-key="ArrowLeft"`}, []string{`rel="next"`}},
		"outside of its list":      {list + "/4?scenario=B06", 200, []string{"Episode 4:"}, []string{`rel="next"`, `rel="prev"`}},
		"an episode that is not":   {list + "/99", 404, []string{"no stored episode with the index 99"}, nil},
		"a number that is not one": {list + "/..%2f", 404, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := get(s, tt.path)
			if w.Code != tt.status {
				t.Errorf("status %d, want %d", w.Code, tt.status)
			}
			for _, want := range tt.want {
				if !strings.Contains(w.Body.String(), want) {
					t.Errorf("no %q in\n%s", want, w.Body)
				}
			}
			for _, not := range tt.not {
				if strings.Contains(w.Body.String(), not) {
					t.Errorf("%q in\n%s", not, w.Body)
				}
			}
		})
	}
}

// The links of a bundle lead to files of the bundle, and nothing in it needs a server.
func TestBundle(t *testing.T) {
	s, paths := played(t, map[string][]string{
		"oracle":    {"ticket-resolve", "--scenario", "B06,B07,S03", "--agent", "oracle"},
		"heuristic": {"ticket-resolve", "--scenario", "B06,B07", "--agent", "heuristic"},
	})
	folder, pages := filepath.Join(t.TempDir(), "pages"), 0
	s.bundleEpisodes = 2
	if err := s.bundle(t.Context(), folder, func(written, _ int) { pages = written }); err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`(?:href|src|action)="([^"#]*)`)
	seen := map[string]string{}
	if err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".html" {
			return err
		}
		text, err := os.ReadFile(path)
		seen[path] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for path, text := range seen {
		for _, link := range links.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(link[1]))); err != nil {
				t.Errorf("%s: the link %q leads nowhere", path, link[1])
			}
		}
		for _, not := range []string{"<script", "<form", "hx-", "data-copy"} {
			if strings.Contains(text, not) {
				t.Errorf("%s has %s, which needs a server", path, not)
			}
		}
	}
	if first := seen[filepath.Join(folder, "index.html")]; !strings.Contains(first, ">oracle</a>") {
		t.Errorf("the first page doesn't list the runs: %s", first)
	}
	episode := seen[filepath.Join(folder, filepath.FromSlash(paths["heuristic"])+"/episodes/1.html")]
	if pages != 12 || !strings.Contains(episode, "right: ") || !strings.Contains(episode, "Conversation") {
		t.Errorf("%d files, the episode is %q", pages, episode)
	}
	if err := s.bundle(t.Context(), folder, nil); err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("a second bundle: %v", err)
	}
}

// New episodes of a store are in the list without a restart.
func TestStoreGrows(t *testing.T) {
	s, paths := played(t, map[string][]string{"first": {"ticket-resolve", "--scenario", "B06", "--agent", "noop"}})
	before := s.sources.version.Load()
	evaluateInto(t, s.sources.stored.locations[0], "second", "ticket-resolve", "--scenario", "B07", "--agent", "noop")
	poll(t, func() bool { return strings.Contains(get(s, "/").Body.String(), ">second<") },
		func() string { return "the second run is not shown" })
	if s.sources.version.Load() == before || get(s, paths["first"]).Code != http.StatusOK {
		t.Error("open pages don't learn of the new run, or the first run is gone")
	}
}
