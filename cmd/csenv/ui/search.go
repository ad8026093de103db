package ui

import (
	"net/http"
	"slices"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/index"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
)

const searchPath = "/search"

const (
	// foundEpisodes and foundRuns bound what a search shows, titledScenarios the scenarios whose
	// episodes it looks for because of their titles, and namedRuns the runs that it looks through
	// because the text has a part of their name.
	foundEpisodes   = 100
	foundRuns       = 20
	titledScenarios = 50
	namedRuns       = 5
)

// searchPage is the data of the template search.html.
type searchPage struct {
	Query string
	Runs  []foundRun
	Rows  []foundEpisode
	// More means that there are more episodes, MoreRuns more runs.
	More, MoreRuns bool
	// Reading says how far the stores are read, "" if they are.
	Reading string
	Limit   int
}

// foundRun is a run whose name has all words.
type foundRun struct {
	Name, Path, Episodes string
	State                stateView
	// About tells runs of one name apart.
	About []string
}

type foundEpisode struct {
	episodeRow
	Run, RunPath, Made string
}

// titled is a scenario and the words of its id and its title.
type titled struct {
	id    string
	words []string
}

// titles lists the scenarios with the words of their ids and those of their titles that don't
// depend on the seed.
func (s *site) titles() []titled {
	if s.catalog == nil {
		return nil
	}
	var ids []string
	for _, t := range s.catalog.Tickets() {
		ids = append(ids, t.ID)
	}
	for _, w := range s.catalog.Workflows() {
		ids = append(ids, w.ID)
	}
	return view.MapItems(ids, func(id string) titled {
		other := index.SplitWords(s.titleOf(id, 2))
		same := slices.DeleteFunc(index.SplitWords(s.titleOf(id, 1)), func(word string) bool {
			return !slices.Contains(other, word)
		})
		return titled{id, append(same, index.SplitWords(id)...)}
	})
}

// search shows the runs and the episodes of all stores that have some words: in the name of a run,
// in the id or the title of a scenario, in the reason of a failure or of lost points, or in what
// the agent wrote.
func (s *site) search(titles func() []titled) func(*http.Request) (shown, error) {
	return func(r *http.Request) (shown, error) {
		text := strings.TrimSpace(r.URL.Query().Get("q"))
		if s.sources.stored == nil {
			return shown{}, notFound("Episodes can be searched in stores only: start csenv ui with --results.")
		}
		if len(text) > index.MaxText {
			return shown{}, badRequest("The text to search for has %d bytes: shorten it to %d.", len(text),
				index.MaxText)
		}
		p := &searchPage{Query: text, Reading: s.sources.stored.reading(), Limit: foundEpisodes}
		found := shown{"search", "Search", "", p}
		words := index.SplitWords(text)
		if len(words) == 0 {
			return found, nil
		}
		runs, err := s.sources.runs(r.Context())
		if err != nil {
			return shown{}, err
		}
		s.findRuns(p, runs, words)
		searches := append(s.withinRuns(runs, words), index.Search{Text: text})
		for i := range searches {
			q := &searches[i]
			wanted := index.SplitWords(q.Text)
			q.Limit, q.Reasons = foundEpisodes, reasonsWith(runs, wanted)
			for _, t := range titles() {
				if hasPrefixes(t.words, wanted) && len(q.Scenarios) < titledScenarios {
					q.Scenarios = append(q.Scenarios, t.id)
				}
			}
		}
		return found, s.findEpisodes(r, p, searches)
	}
}

// withinRuns are searches of the runs whose names have some of the words, for the other words.
func (s *site) withinRuns(runs []*source.LoadedRun, words []string) []index.Search {
	var searches []index.Search
	for _, run := range runs {
		name := index.SplitWords(run.Name)
		others := slices.DeleteFunc(slices.Clone(words),
			func(word string) bool { return hasPrefixes(name, []string{word}) })
		id := s.sources.stored.indexID(runID(run.EvaluationRun))
		if id != "" && len(others) > 0 && len(others) < len(words) && len(searches) < namedRuns {
			searches = append(searches, index.Search{Run: id, Text: strings.Join(others, " ")})
		}
	}
	return searches
}

// hasPrefixes reports whether each word begins one of some others.
func hasPrefixes(others, words []string) bool {
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(other, word) })
	})
}

// findRuns adds the runs whose names have all words.
func (s *site) findRuns(p *searchPage, runs []*source.LoadedRun, words []string) {
	for _, run := range runs {
		if !hasPrefixes(index.SplitWords(run.Namespace+" "+run.Name), words) {
			continue
		}
		if p.MoreRuns = len(p.Runs) == foundRuns; p.MoreRuns {
			return
		}
		state, _ := s.sources.stateOf(run)
		made := foundRun{Name: run.Name, Path: runPath(run), State: state,
			About: figures.DescribeRun(run.EvaluationRun)}
		if _, _, err := s.sources.episodes(run); err == nil {
			made.Episodes = made.Path + "/episodes"
		}
		p.Runs = append(p.Runs, made)
	}
}

// reasonsWith lists the reasons for which runs lost points that have all words.
func reasonsWith(runs []*source.LoadedRun, words []string) []string {
	reasons := map[string]bool{}
	for _, run := range runs {
		for _, lost := range run.Lost {
			if hasPrefixes(index.SplitWords(lost.Name()), words) {
				reasons[lost.Reason()] = true
			}
		}
	}
	return view.SortedKeys(reasons)
}

// findEpisodes adds the episodes that some searches select.
func (s *site) findEpisodes(r *http.Request, p *searchPage, searches []index.Search) error {
	runs, shown := s.sources.stored.byIndexID(), map[string]bool{}
	for _, q := range searches {
		found, more, err := s.sources.stored.index.Search(r.Context(), q)
		if err != nil {
			return err
		}
		p.More = p.More || more
		for _, e := range found {
			run := runs[e.Run]
			if run == nil {
				continue // its figures can't be computed: the overview says why
			}
			path := runPath(run)
			row := s.episodeRow(path, nil, e.Episode)
			switch {
			case shown[row.Path]:
			case len(p.Rows) == foundEpisodes:
				p.More = true
			default:
				shown[row.Path] = true
				p.Rows = append(p.Rows, foundEpisode{row, run.Name, path,
					run.CreationTimestamp.UTC().Format("2006-01-02 15:04")})
			}
		}
	}
	return nil
}

// byIndexID are the stored runs by their ids in the index.
func (s *stored) byIndexID() map[string]*source.LoadedRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := map[string]*source.LoadedRun{}
	for _, run := range s.byID {
		runs[run.ID] = run.LoadedRun
	}
	return runs
}
