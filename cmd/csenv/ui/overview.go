package ui

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
)

// overviewPage is the data of overview.html. Live is the path of its updates.
type overviewPage struct {
	Live    string
	Notices []notice
	Pools   []poolRow
	Runs    []runRow
	Filter  runFilter
	Columns []column
	// Choices are the columns to choose from, Shown the names of those that are shown.
	Choices []option
	Shown   map[string]bool
	// Dimensions are those whose points the table shows.
	Dimensions []string
	States     []option
	Namespaces []option
	// Found counts the runs that match the filter, All those without it. First and Last number the
	// shown ones, from 1.
	Found, All, First, Last int
	Newer, Older            string
	// Reading means that stores are still being read, Priced that a cost is shown.
	Reading, Priced bool
	// Clustered means that the cluster is a source, Public that texts of failures are left out.
	Clustered, Public bool
	Hints             []hint
}

// notice is a message about the sources.
type notice struct{ Text, Age string }

// String is the message in full.
func (n notice) String() string {
	if n.Age == "" {
		return n.Text
	}
	return n.Text + " The page shows the state of " + n.Age + "."
}

// hint is a command that helps a user to begin.
type hint struct{ What, Command string }

// option is a choice of a menu.
type option struct {
	Value, Name string
	Selected    bool
}

// stateView is the data of the part "state".
type stateView struct{ Text, Kind string }

// moment is a time on a page: its age, and in full.
type moment struct{ Age, Full string }

// poolRow is a pool.
type poolRow struct {
	Namespace, Name, Environment string
	State                        stateView
	// Faults are the messages of conditions, and Command shows more of them.
	Faults           []string
	Command          string
	Ready, Desired   int32
	Active, Capacity int64
	Endpoint         string
	Health           string
}

// runRow is a run.
type runRow struct {
	// ID identifies the run in a comparison.
	ID                                 string
	Namespace, Name, Path, Agent, Pool string
	// Task are the run's tasks, Selection says which scenarios of them.
	Task, Selection, Seed string
	usage
	// Duration is how long the run took, "" if it is unknown.
	Duration string
	took     time.Duration
	State    stateView
	// interrupted means that nobody plays the run although it lacks episodes.
	interrupted               bool
	Done, Total               int64
	Score, Interval, PassRate string
	// Short are the score, its interval and the pass rate with the digits that the interval
	// supports.
	Short   [3]string
	Created moment
	// Points are the run's points by dimension.
	Points map[string]string
	// Message says why a run waits or failed, and Trouble what happened to answers.
	Message, Trouble string
}

// runFilter are the parameters of the page.
type runFilter struct {
	Text, State, Namespace string
	// Sort is a column, descending after a minus sign, "" for the newest first.
	Sort string
	// Columns are the table's columns, nil for the usual ones. troubled means that answers of a run
	// were in trouble.
	Columns  []string
	troubled bool
	Page     int
}

const (
	runsPerPage = 100
	// underWay selects the runs that haven't ended.
	underWay = "under-way"
)

func newRunFilter(form url.Values) (runFilter, error) {
	f := runFilter{Text: strings.TrimSpace(form.Get("text")), State: form.Get("state"),
		Namespace: form.Get("namespace"), Sort: form.Get("sort"), Page: 1}
	if f.Sort != "" && runSorts[strings.TrimPrefix(f.Sort, "-")] == nil {
		return f, badRequest("Runs can't be sorted by %.40q: choose one of %v.", f.Sort, view.SortedKeys(runSorts))
	}
	var err error
	if f.Columns, err = readColumns(form["columns"]); err != nil {
		return f, err
	}
	if text := form.Get("page"); text != "" {
		page, err := strconv.Atoi(text)
		if err != nil || page < 1 {
			return f, badRequest("page=%s is not a page: pages are numbered from 1.", text)
		}
		f.Page = page
	}
	return f, nil
}

// readColumns returns the columns of a form, which lists them with commas or by repetition. It is
// nil for the usual ones.
func readColumns(lists []string) ([]string, error) {
	wanted := map[string]bool{runColumns[0].name: true}
	for _, list := range lists {
		for name := range strings.SplitSeq(list, ",") {
			wanted[name] = true
		}
	}
	var names []string
	for _, c := range runColumns {
		if wanted[c.name] {
			names = append(names, c.name)
		}
		delete(wanted, c.name)
	}
	for _, name := range view.SortedKeys(wanted) {
		if strings.HasPrefix(name, pointsColumn) {
			names = append(names, name)
			continue
		}
		return nil, badRequest("The table of runs has no column %.40q: choose some of %v.", name,
			view.MapItems(runColumns, func(c runColumn) string { return c.name }))
	}
	if len(lists) == 0 {
		return nil, nil
	}
	return names, nil
}

// query are the parameters of a page with this filter.
func (f runFilter) query(page int) string {
	values := buildQuery(map[string]string{"text": f.Text, "state": f.State, "namespace": f.Namespace, "sort": f.Sort,
		"columns": strings.Join(f.Columns, ",")})
	if page > 1 {
		values.Set("page", strconv.Itoa(page))
	}
	return addQuery("", values)
}

func (f runFilter) matches(r runRow, ended bool) bool {
	text := strings.ToLower(f.Text)
	return (f.Namespace == "" || r.Namespace == f.Namespace) &&
		(f.State == "" || f.State == r.State.Text || f.State == underWay && !ended) &&
		(strings.Contains(strings.ToLower(r.Name), text) || strings.Contains(strings.ToLower(r.Agent), text) ||
			strings.Contains(strings.ToLower(r.Pool), text) || strings.Contains(strings.ToLower(r.Task), text))
}

func (s *site) overview(r *http.Request) (shown, error) {
	filter, err := newRunFilter(r.URL.Query())
	if err != nil {
		return shown{}, err
	}
	found := s.sources.state(r.Context())
	p := &overviewPage{Live: "/live" + filter.query(filter.Page), Filter: filter, All: len(found.runs),
		Notices: s.notices(found.problems), Clustered: s.sources.cluster != nil, Public: s.public}
	slices.SortFunc(found.pools, func(a, b *v1alpha1.CustomerSupportEnv) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	if p.Reading = found.reading != ""; p.Reading {
		p.Notices = append(p.Notices, notice{Text: found.reading})
	}
	p.Pools = view.MapItems(found.pools, s.poolRow)
	p.list(s, found.runs)
	if p.Clustered && !s.public && len(found.problems) == 0 {
		p.Hints = listHints(found)
	}
	return shown{"overview", "Overview", "overview", p}, nil
}

// list fills in the runs: those under way, then the newest.
func (p *overviewPage) list(s *site, runs []*source.LoadedRun) {
	var playing, ended []runRow
	states, namespaces := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		row := s.runRow(r)
		over := evaluation.HasEnded(r.Status.Conditions) || row.interrupted
		states[row.State.Text], namespaces[row.Namespace] = true, true
		switch {
		case !p.Filter.matches(row, over):
		case over:
			ended = append(ended, row)
		default:
			playing = append(playing, row)
		}
	}
	playing = append(playing, ended...)
	p.Filter.order(playing)
	p.Filter.troubled = slices.ContainsFunc(playing, func(r runRow) bool { return r.Trouble != "" })
	all := listRunColumns(runs)
	p.Columns, p.Choices, p.Shown = p.Filter.columns(all), p.Filter.choices(all), map[string]bool{}
	for _, c := range p.Choices {
		p.Shown[c.Value] = c.Selected
		if name, is := strings.CutPrefix(c.Value, pointsColumn); is && c.Selected {
			p.Dimensions = append(p.Dimensions, name)
		}
	}
	p.Found = len(playing)
	p.Filter.Page = min(p.Filter.Page, max((p.Found+runsPerPage-1)/runsPerPage, 1))
	from := (p.Filter.Page - 1) * runsPerPage
	to := min(from+runsPerPage, p.Found)
	p.Runs, p.First, p.Last = playing[from:to], min(from+1, to), to
	p.Priced = p.Shown["cost"] && slices.ContainsFunc(p.Runs, func(r runRow) bool { return r.Cost != "" })
	if from > 0 {
		p.Newer = "/" + p.Filter.query(p.Filter.Page-1)
	}
	if to < p.Found {
		p.Older = "/" + p.Filter.query(p.Filter.Page+1)
	}
	p.States = append([]option{{"", "All", p.Filter.State == ""}, {underWay, "Under way", p.Filter.State == underWay}},
		listOptions(states, p.Filter.State)...)
	if len(namespaces) > 1 || p.Filter.Namespace != "" {
		p.Namespaces = append([]option{{"", "All", p.Filter.Namespace == ""}},
			listOptions(namespaces, p.Filter.Namespace)...)
	}
}

func listOptions(values map[string]bool, selected string) []option {
	return view.MapItems(slices.DeleteFunc(view.SortedKeys(values), func(value string) bool { return value == "" }),
		func(value string) option { return option{value, value, value == selected} })
}

// notices are the problems of the sources, in words.
func (s *site) notices(problems []problem) []notice {
	return view.MapItems(problems, func(p problem) notice {
		text := strings.TrimSuffix(p.err.Error(), ".") + "."
		n := notice{Text: strings.ToUpper(text[:1]) + text[1:]}
		if s.public {
			n.Text = p.plain
		}
		if !p.read.IsZero() {
			n.Age = ageOf(p.read).Age
		}
		return n
	})
}

// listHints are the next steps if there are no pools or no runs.
func listHints(found state) []hint {
	switch {
	case len(found.pools) == 0:
		return []hint{{"Create a pool of servers:", "kubectl apply -f config/samples/support.yaml"},
			{"Check the installation:", "csenv doctor"}}
	case len(found.runs) == 0:
		pool := found.pools[0]
		task := "ticket-resolve"
		if len(pool.Status.Tasks) > 0 {
			task = pool.Status.Tasks[0].Name
		}
		return []hint{{"Evaluate a built-in policy on a pool:", fmt.Sprintf(
			"csenv run -n %s --pool %s --task %s --agent heuristic", pool.Namespace, pool.Name, task)}}
	}
	return nil
}

func (s *site) poolRow(pool *v1alpha1.CustomerSupportEnv) poolRow {
	status := pool.Status
	sessions, episodes := ptr.Deref(status.Sessions, v1alpha1.SessionCounts{}),
		ptr.Deref(status.Episodes, v1alpha1.PoolEpisodes{})
	row := poolRow{Namespace: pool.Namespace, Name: pool.Name, Environment: string(pool.Spec.Environment),
		State: stateView{"Pending", ""}, Ready: ptr.Deref(status.ReadyReplicas, 0),
		Desired: max(ptr.Deref(pool.Spec.Replicas, 0), ptr.Deref(status.Replicas, 0)),
		Active:  sessions.Active, Capacity: sessions.Capacity,
		Health: fmt.Sprintf("%d scored, %d failed, %d errored", episodes.Scored, episodes.Failed, episodes.Errored)}
	if episodes.MeanScore != "" {
		row.Health += ", mean score " + episodes.MeanScore
	}
	suspended := pool.Spec.OperatingMode == v1alpha1.SuspendedMode
	if pool.Spec.Autoscaling != nil || suspended {
		row.Desired = ptr.Deref(status.Replicas, 0)
	}
	available := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAvailable)
	degraded := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	limited := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScalingLimited)
	switch {
	case available == nil:
		row.Faults = []string{"The operator hasn't seen the pool yet: check that it runs."}
	case available.Status == metav1.ConditionTrue:
		row.State = stateView{available.Reason, "good"}
	default:
		row.State = stateView{available.Reason, ""}
		row.Faults = []string{available.Message}
	}
	if degraded != nil && degraded.Status == metav1.ConditionTrue {
		row.State = stateView{degraded.Reason, "bad"}
		row.Faults = append(row.Faults, degraded.Message)
	}
	if limited != nil && limited.Status == metav1.ConditionTrue {
		row.Faults = append(row.Faults, limited.Message)
	}
	slices.Sort(row.Faults)
	row.Faults = slices.Compact(row.Faults)
	if s.public {
		row.Faults = nil
		return row
	}
	row.Endpoint = status.Endpoint
	if len(row.Faults) > 0 && !suspended {
		row.Command = fmt.Sprintf("kubectl -n %s describe cse %s", pool.Namespace, pool.Name)
	}
	return row
}

func (s *site) runRow(r *source.LoadedRun) runRow {
	episodes := ptr.Deref(r.Status.Episodes, v1alpha1.RunEpisodes{})
	namespace, folder := runPlace(r)
	row := runRow{ID: namespace + "/" + folder, Namespace: r.Namespace, Name: r.Name, Path: runPath(r),
		Agent: source.AgentName(r.EvaluationRun),
		Pool:  r.Spec.EnvironmentRef.Name, Done: episodes.Scored + episodes.Failed + episodes.Errored,
		Total: episodes.Total, PassRate: r.Status.PassRate, Created: ageOf(r.CreationTimestamp.Time)}
	if pool := evaluation.PoolOf(r.EvaluationRun); pool.Name != "" && pool.Namespace != r.Namespace {
		row.Pool = pool.String()
	}
	if score := r.Status.Score; score != nil {
		row.Score = score.Mean
		if score.CI95 != nil {
			row.Interval = score.CI95.Low + " to " + score.CI95.High
		}
	}
	row.describe(r.EvaluationRun)
	var message string
	row.State, message = s.sources.stateOf(r)
	row.interrupted = row.State.Text == local.ReasonInterrupted
	if row.State.Kind != "good" && !s.public {
		row.Message = message
	}
	if figures.MuteOf(r.EvaluationRun) != "" {
		row.State = stateView{row.State.Text + ", no actions", "bad"}
	}
	if unread := s.sources.unread(r); unread != "" {
		row.State, row.Message = stateView{"Being read", "busy"}, unread
	}
	return row
}

// describe adds what a run plays and used, and its figures in short.
func (row *runRow) describe(run *v1alpha1.EvaluationRun) {
	row.Task, row.Seed, row.Selection = figures.TaskNames(run), figures.SeedOf(run), selectionOf(run)
	row.Points = pointsOf(run)
	row.usage, row.Trouble = usageOf(run), figures.TroubleOf(run).TroubleText()
	if start, end := run.Status.StartTime, run.Status.CompletionTime; start != nil && end != nil {
		row.took = end.Sub(start.Time)
		row.Duration = row.took.Round(time.Second).String()
	}
	ci := ptr.Deref(ptr.Deref(run.Status.Score, v1alpha1.Score{}).CI95, v1alpha1.Interval{})
	row.Short = [3]string{figures.RoundToInterval(row.Score, ci), "", figures.RoundToInterval(row.PassRate, ci)}
	if row.Interval != "" {
		row.Short[1] = figures.RoundToInterval(ci.Low, ci) + " to " + figures.RoundToInterval(ci.High, ci)
	}
}

// stateOf returns the state of a run, and the message of the condition that sets it. An unfinished
// run may have been interrupted since it was read.
func (s *sources) stateOf(run *source.LoadedRun) (stateView, string) {
	if !source.IsUnfinished(run.EvaluationRun) {
		return stateOf(run.EvaluationRun)
	}
	written := run.CreationTimestamp.Time
	if s.stored != nil {
		written = s.stored.written(run)
	}
	reason, message := source.Standing(run.EvaluationRun, written)
	kind := "busy"
	if reason == local.ReasonInterrupted {
		kind = "bad"
	}
	return stateView{reason, kind}, message
}

// written is when a run was stored last: its manifest or its newest segment.
func (s *stored) written(run *source.LoadedRun) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := run.CreationTimestamp.Time
	if newest := s.byID[runID(run.EvaluationRun)].Newest; newest.After(written) {
		written = newest
	}
	return written
}

func stateOf(run *v1alpha1.EvaluationRun) (stateView, string) {
	state, message := figures.StateOf(run)
	conditions := run.Status.Conditions
	complete := meta.FindStatusCondition(conditions, v1alpha1.ConditionComplete)
	switch {
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFailed),
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionThresholdsMet):
		return stateView{state, "bad"}, message
	case complete != nil && complete.Status == metav1.ConditionTrue && complete.Reason == state:
		return stateView{state, "good"}, ""
	case state == v1alpha1.ReasonRunning:
		return stateView{state, "busy"}, ""
	}
	return stateView{state, ""}, message
}

// ageOf returns how long ago a time was.
func ageOf(at time.Time) moment {
	if at.IsZero() {
		return moment{}
	}
	m := moment{Full: view.FormatUTC(at)}
	switch age := time.Since(at); {
	case age < time.Minute:
		m.Age = "less than 1 min ago"
	case age < time.Hour:
		m.Age = fmt.Sprintf("%d min ago", age/time.Minute)
	case age < 48*time.Hour:
		m.Age = fmt.Sprintf("%d h ago", age/time.Hour)
	default:
		m.Age = fmt.Sprintf("%d days ago", age/(24*time.Hour))
	}
	return m
}
