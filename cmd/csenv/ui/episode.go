package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/printable"
	"github.com/csenv/csenv/envserver/web/transcript"
)

// episodePage is what the page of an episode shows.
type episodePage struct {
	Crumbs         []page.Link
	Excerpt        transcript.Excerpt
	Previous, Next string
	// Position is the episode's place in its list, "" if the list doesn't have it.
	Position string
	// State is whether the episode passed. Score is its score beside the one that passes, and About
	// what was played.
	State stateView
	Score string
	About []string
	// Title is what the scenario is about.
	Title string
	// Parts are those that are shown: the one of the open tab or, without tabs, all.
	Parts []string
	Tabs  []tab
	// Command shows the episode on a terminal, and Scenario its scenario, "" if that is unknown.
	// Play is the path of a playground with the same scenario and values, "" without one.
	Command, Scenario, Play string
	Facts                   []transcript.Field
	// Record is the record as JSON, "" if it is long.
	Record string
	// Objection is why a person finds the grade wrong, "" if nobody does. Object is the path of the
	// form that writes it, "" if it can't be written.
	Objection, Object string
}

type tab struct {
	Name, Path string
	Current    bool
}

// The values of the parameter tab.
const (
	tabConversation = "conversation"
	tabRecord       = "record"
)

// maxRecord bounds the actions of a record that a page shows, in bytes.
const maxRecord = 64 << 10

// requested finds the episode of a request.
func (s *site) requested(r *http.Request) (*source.LoadedRun, record.Episode, error) {
	index, err := strconv.ParseInt(r.PathValue("episode"), 10, 64)
	if err != nil {
		return nil, record.Episode{}, notFound("%.40q is not the number of an episode.", r.PathValue("episode"))
	}
	run, err := s.sources.run(r.Context(), r.PathValue("namespace"), r.PathValue("run"))
	if err != nil {
		return nil, record.Episode{}, err
	}
	e, err := s.sources.episode(r.Context(), run, index)
	return run, e, err
}

// episode shows an episode. The parameters of its list stay in all links.
func (s *site) episode(r *http.Request) (shown, error) {
	query := r.URL.Query()
	from := 0
	if text := query.Get("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil {
			return shown{}, badRequest("%.40q is not the number of a step.", text)
		}
	}
	run, e, err := s.requested(r)
	if err != nil {
		return shown{}, err
	}
	query.Del("from")
	found, err := s.episodeOf(r.Context(), run, e, from, query)
	if err != nil {
		return shown{}, err
	}
	p := found.main.(*episodePage)
	if err := s.addObjection(r, p, run, query); err != nil {
		return shown{}, err
	}
	return found, s.neighbours(r.Context(), p, run, query)
}

// addObjection adds what a person has written against the grade.
func (s *site) addObjection(r *http.Request, p *episodePage, run *source.LoadedRun, query url.Values) error {
	store, err := run.OwnStore(r.Context())
	if store == nil || err != nil {
		return err
	}
	defer store.Close()
	if s.mayObject(r) {
		p.Object = addQuery(p.Excerpt.Path+"/objection", query)
	}
	o, err := store.Objection(r.Context(), "", p.Excerpt.Episode.Index)
	p.Objection = o.Because
	return err
}

// episodeOf shows an episode from a step on. The query has the parameters of the list and the tab.
func (s *site) episodeOf(ctx context.Context, run *source.LoadedRun, e record.Episode, from int,
	query url.Values) (shown, error) {
	t, err := transcript.ReplayEpisode(ctx, s.catalog, e)
	if err != nil {
		return shown{}, err
	}
	open := query.Get("tab")
	if open != tabRecord {
		open = tabConversation
	}
	p := &episodePage{Excerpt: t.Excerpt(from), Parts: []string{open}, About: describeEpisode(t),
		Title:   s.titleOf(e.Scenario, e.Seed),
		Command: s.command(run, e), Facts: recordFacts(e)}
	if t.Unknown == "" {
		p.Scenario = t.ShowCommand(s.packs)
	}
	p.State, p.Score = standingOf(run.EvaluationRun, e)
	list := runPath(run) + "/episodes"
	p.Excerpt.Path, p.Excerpt.Query = fmt.Sprintf("%s/%d", list, e.Index), query
	if s.pages.Static {
		p.Parts = []string{tabConversation, tabRecord}
	} else {
		p.Excerpt.Raw, p.Tabs = p.Excerpt.Path+"/raw", listTabs(p.Excerpt.Path, query, open)
		p.Play = playgroundOf(e)
	}
	if slices.Contains(p.Parts, tabRecord) {
		p.Record = recordText(e)
	}
	filter := dropParameter(query, "tab")
	p.Crumbs = newCrumbs("Overview", "/", run.Name, runPath(run), "Episodes", addQuery(list, filter),
		strconv.FormatInt(e.Index, 10), "")
	return shown{"episode", fmt.Sprintf("Episode %d of %s", e.Index, run.Name), "", p}, nil
}

// rawEpisode answers with the record of an episode as a file.
func (s *site) rawEpisode(w http.ResponseWriter, r *http.Request) {
	_, e, err := s.requested(r)
	var data []byte
	if err == nil {
		data, err = json.MarshalIndent(e, "", "  ")
	}
	if err != nil {
		s.serve(func(*http.Request) (shown, error) { return shown{}, err })(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="episode-%d.json"`, e.Index))
	_, _ = w.Write(data) // the browser may have gone
}

// dropParameter returns parameters without one of them.
func dropParameter(query url.Values, name string) url.Values {
	out := url.Values{}
	for key, values := range query {
		if key != name {
			out[key] = values
		}
	}
	return out
}

func listTabs(path string, query url.Values, open string) []tab {
	names := [][2]string{{tabConversation, "Conversation and grade"}, {tabRecord, "Record"}}
	out := make([]tab, 0, len(names))
	for _, t := range names {
		q := dropParameter(query, "tab")
		if t[0] != tabConversation {
			q.Set("tab", t[0])
		}
		out = append(out, tab{Name: t[1], Path: addQuery(path, q), Current: t[0] == open})
	}
	return out
}

// neighbours links the episodes before and after one in the list that the query selects.
func (s *site) neighbours(ctx context.Context, p *episodePage, run *source.LoadedRun, query url.Values) error {
	x, id, err := s.sources.episodes(run)
	if err != nil {
		return err
	}
	q, err := s.listQuery(id, query)
	if err != nil {
		return err
	}
	found, err := x.Neighbours(ctx, q, p.Excerpt.Episode.Index)
	if err != nil {
		return err
	}
	if s.pages.Static && found.Position+1 >= s.bundleEpisodes {
		found.Next = nil
	}
	for to, link := range map[*int64]*string{found.Previous: &p.Previous, found.Next: &p.Next} {
		if to != nil {
			*link = addQuery(fmt.Sprintf("%s/episodes/%d", runPath(run), *to), query)
		}
	}
	if found.Position >= 0 {
		p.Position = fmt.Sprintf("%s of %s", formatThousands(found.Position+1), formatThousands(found.Total))
	}
	return nil
}

// standingOf is how an episode ended, and its score beside that with which one passes.
func standingOf(run *v1alpha1.EvaluationRun, e record.Episode) (stateView, string) {
	if e.Score == nil || e.Outcome == score.Errored {
		return wordOf(e.Outcome, e.Class, false), ""
	}
	points := source.ToMicroPoints(*e.Score)
	text := "score " + score.FormatDecimal(points)
	pass, err := evaluation.PassScore(run)
	if err != nil {
		if e.Outcome == score.Failed {
			return wordOf(e.Outcome, "", false), text
		}
		return stateView{"Scored", ""}, text
	}
	text += ", passes with " + score.FormatExact(pass)
	if e.Wrong && points >= pass {
		text += " if nothing of what is decided and told is wrong"
	}
	return wordOf(e.Outcome, "", points >= pass && !e.Wrong), text
}

// wordOf is how an episode ended, in the words of all pages.
func wordOf(outcome score.Outcome, class string, passed bool) stateView {
	switch {
	case outcome == score.Failed:
		return stateView{"Failed by the agent", "bad"}
	case outcome == score.Withheld:
		return stateView{"Score withheld", ""}
	case outcome == score.Errored:
		return stateView{strings.TrimSuffix("Errored: "+class, ": "), "bad"}
	case passed:
		return stateView{"Passed", "good"}
	}
	return stateView{"Missed", "bad"}
}

// describeEpisode says what was played.
func describeEpisode(t transcript.Transcript) []string {
	e, refused := t.Episode, 0
	for _, turn := range e.Turns {
		if turn.Refused != "" {
			refused++
		}
	}
	about := []string{"task " + e.Task, "scenario " + e.Scenario, "trial " + strconv.Itoa(e.Trial),
		fmt.Sprintf("seed %d", e.Seed)}
	steps := view.FormatCount(len(e.Turns), "step")
	if limit := t.MaxSteps(); limit > 0 {
		steps += fmt.Sprintf(" of at most %d", limit)
	}
	if refused > 0 {
		steps += fmt.Sprintf(", %d refused", refused)
	}
	about = append(about, steps, fmt.Sprintf("%.1f s", float64(e.DurationMS)/1000))
	if e.Attempts > 1 {
		about = append(about, fmt.Sprintf("attempt %d", e.Attempts))
	}
	return about
}

// recordFacts are the facts of a record by name.
func recordFacts(e record.Episode) []transcript.Field {
	facts := []transcript.Field{{Name: "Run", Value: e.Run},
		{Name: "Episode, counted from 0", Value: strconv.FormatInt(e.Index, 10)},
		{Name: "Episode id", Value: e.EpisodeID},
		{Name: "Environment", Value: e.Environment}, {Name: "Reward mode", Value: string(e.RewardMode)},
		{Name: "Judge", Value: e.Judge},
		{Name: "The score rests on", Value: grader.DescribeTrust(e.Judge, []string{e.Task})},
		{Name: "Grader", Value: e.GraderVersion},
		{Name: "Scenarios", Value: e.ScenarioDigest}, {Name: "Receipt", Value: e.Receipt}}
	if e.Pressure {
		facts = append(facts, transcript.Field{Name: "Pressure", Value: "a late reply costs points"})
	}
	if b := e.Before; b != nil {
		text := string(b.Outcome)
		if b.Score != nil {
			text += " " + strconv.FormatFloat(*b.Score, 'f', 4, 64)
		}
		facts = append(facts, transcript.Field{Name: "Grade before", Value: text + ", grader " + b.GraderVersion +
			", judge " + b.Judge})
	}
	return slices.DeleteFunc(facts, func(f transcript.Field) bool { return f.Value == "" })
}

// recordText is a record as JSON, "" if it is long.
func recordText(e record.Episode) string {
	size := 0
	for _, turn := range e.Turns {
		size += len(turn.Action) + len(turn.Said) + len(turn.Refused)
	}
	if size > maxRecord {
		return ""
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// command is the command that shows the episode on a terminal.
func (s *site) command(run *source.LoadedRun, e record.Episode) string {
	show := []string{"csenv", "transcript"}
	if run.Status.Results != "" {
		show = append(show, "--results", run.Status.Results)
	}
	for _, pack := range s.packs {
		show = append(show, "--pack", pack)
	}
	return quoteCommand(show, run.Name, strconv.FormatInt(e.Index, 10))
}

// playgroundOf is the path of the playground of this machine with an episode's scenario and values
// in its form.
func playgroundOf(e record.Episode) string {
	form := url.Values{"target": {e.Environment}, "task": {e.Task}, "scenario": {e.Scenario},
		"seed": {strconv.FormatInt(e.Seed, 10)}}
	if e.Pressure {
		form.Set("pressure", "on")
	}
	return playPath + "/?" + form.Encode()
}

// quoteCommand writes a command for a shell, with its arguments after its flags.
func quoteCommand(words []string, arguments ...string) string {
	if slices.ContainsFunc(arguments, func(a string) bool { return strings.HasPrefix(a, "-") }) {
		words = append(words, "--")
	}
	words = append(words, arguments...)
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, shellQuote(printable.EscapeLine(word)))
	}
	return strings.Join(quoted, " ")
}

// shellQuote quotes a word if a shell would read it otherwise.
func shellQuote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./:@%+,", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
