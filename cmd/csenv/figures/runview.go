package figures

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/web/chart"
)

// RunView is what pages and reports show of a run, with the templates of parts/run.html.
type RunView struct {
	Name, Agent string
	// About are the task, the seed, the date, the agent, the place and the labels of the run, and
	// Note is what it was for.
	About []string
	Note  string
	// Verdict is what a run found, in a sentence, and Looks are what to look at first.
	Verdict string
	Looks   []Look
	// Doubt says why no board ranks a stored run, "" otherwise.
	Doubt string
	// Mute says that most answers of the agent contained no action, "" otherwise.
	Mute string
	// Trouble is the cell of a table of runs.
	Trouble string
	Tiles   []Tile
	// Rulers show the figures beside thresholds and other runs.
	Rulers []ruled
	Lost   []LostRow
	// States are the states of the run and, if they are known, of its thresholds and its store.
	States []Verdict
	// Waits is what the run waits for, unless States say it. Advice is what to do, as far as it is
	// not a command, and Command the command. All may be "".
	Waits, Advice, Command string
	Progress               Progress
	Score                  *v1alpha1.Score
	PassScore, PassRate    string
	PassRateCI95           *v1alpha1.Interval
	PassHatK               []v1alpha1.PassHat
	Thresholds             []thresholdRow
	Baseline               *v1alpha1.BaselineResult
	Groups                 []groupTable
	Dimensions             []figureRow
	Histogram              *chart.Histogram
	Errors                 []v1alpha1.ErrorCount
	// Facts are the provenance, the tokens and the durations.
	Facts      []Fact
	Conditions []metav1.Condition
	// Episodes is the path of the run's episodes, "" if there are no links to them.
	Episodes string
}

// Interval is the chart of the score.
func (v RunView) Interval() chart.Interval {
	s := ptr.Deref(v.Score, v1alpha1.Score{})
	interval := ptr.Deref(s.CI95, v1alpha1.Interval{})
	return chart.Interval{Low: interval.Low, Middle: s.Mean, High: interval.High}
}

// Difference is the chart of the difference from the baseline.
func (v RunView) Difference() chart.Interval {
	b := ptr.Deref(v.Baseline, v1alpha1.BaselineResult{})
	interval := ptr.Deref(b.CI95, v1alpha1.Interval{})
	return chart.Interval{Low: interval.Low, Middle: b.Delta, High: interval.High, Difference: true}
}

// Verdict is a state and its message. Kind is how it is coloured: good, bad, busy or "".
type Verdict struct{ Text, Kind, Message string }

// Progress counts a run's episodes.
type Progress struct {
	v1alpha1.RunEpisodes
	// Done are the episodes that have ended.
	Done int64
	// Ended means that the run is over.
	Ended bool
	// Started, Took, Rate and Ends are times in words, "" if they are not known.
	Started, Took, Rate, Ends string
}

// Playing is the number of episodes that are being played.
func (p Progress) Playing() int64 { return ptr.Deref(p.Active, 0) }

// Counted is the number of episodes that are in the score.
func (p Progress) Counted() int64 { return p.Scored + p.Failed }

// Fact is a name and a value. Short is the value as it is shown.
type Fact struct{ Name, Value, Short string }

// groupTable has the figures of groups of one scope, for example of the tasks.
type groupTable struct {
	Scope, Heading string
	Rows           []figureRow
}

// ViewOptions say where a run is shown.
type ViewOptions struct {
	// Now is the time from which rates are computed.
	Now time.Time
	// Episodes is the path of the run's episodes, "" for no links.
	Episodes string
	// Public leaves out messages and places, which can have words of scenarios and of the cluster.
	Public bool
	// Lost are the points that the episodes lost, if the run is stored.
	Lost []source.LostPoints
	// Doubt says why no board ranks a stored run.
	Doubt string
	// Others are the runs among which its baseline and runs of built-in agents are looked for.
	Others []*source.LoadedRun
}

// NewRunView collects the figures of a run.
func NewRunView(run *v1alpha1.EvaluationRun, o ViewOptions) RunView {
	s := &run.Status
	v := RunView{Name: run.Name, Agent: source.AgentName(run), About: DescribeRun(run), States: listVerdicts(run),
		Progress: newProgress(run, o.Now), Score: s.Score,
		PassRate: s.PassRate, PassRateCI95: s.PassRateCI95, PassHatK: s.PassHatK, Thresholds: thresholdRows(run),
		Baseline: s.Baseline, Errors: s.Errors, Conditions: s.Conditions, Episodes: o.Episodes,
		Doubt: o.Doubt, Trouble: TroubleOf(run).TroubleText()}
	if pass, err := evaluation.PassScore(run); err == nil {
		v.PassScore = score.FormatExact(pass)
	}
	v.advise(run)
	v.conclude(run, o.Lost, o.Public)
	v.Rulers = drawRulers(run, o.Others)
	if s.Score != nil {
		v.addGroups(runRows(run))
		v.addHistogram(s)
	}
	for _, row := range provenanceSection(run).Rows {
		fact := Fact{row[0], row[1], row[1]}
		if strings.HasPrefix(row[1], "sha256:") && !strings.Contains(row[1], ",") {
			fact.Short = view.ShortDigest(row[1])
		}
		v.Facts = append(v.Facts, fact)
	}
	if o.Public {
		v.publish()
		return v
	}
	v.Note = run.Annotations[local.NoteAnnotation]
	for _, name := range view.SortedKeys(run.Labels) {
		v.About = append(v.About, name+"="+run.Labels[name])
	}
	return v
}

// DescribeRun says what a run plays, when it was made, and with which agent.
func DescribeRun(run *v1alpha1.EvaluationRun) []string {
	about := view.MapItems(run.Spec.Tasks, func(t v1alpha1.TaskSelection) string { return "task " + t.Name })
	if run.Spec.Seed != nil {
		about = append(about, fmt.Sprintf("seed %d", *run.Spec.Seed))
	}
	if !run.CreationTimestamp.IsZero() {
		about = append(about, view.FormatUTC(run.CreationTimestamp.Time))
	}
	about = append(about, "agent "+source.AgentName(run))
	if pool := run.Spec.EnvironmentRef.Name; pool != "" {
		about = append(about, "pool "+pool)
	}
	if run.Namespace != "" {
		about = append(about, "namespace "+run.Namespace)
	}
	return about
}

// conclude fills in the verdict of a run and what to look at.
func (v *RunView) conclude(run *v1alpha1.EvaluationRun, lost []source.LostPoints, public bool) {
	v.Verdict, v.Mute = verdictOf(run), MuteOf(run)
	if public {
		// The names of parts can tell what is right.
		lost = slices.DeleteFunc(slices.Clone(lost), func(l source.LostPoints) bool {
			return l.Part != ""
		})
	}
	v.Lost = lostRows(lost, v.Episodes)
	v.Tiles = listTiles(run, v.PassScore)
	v.look(run)
}

// listVerdicts are the states of a run that a reader should know, the run's own first.
func listVerdicts(run *v1alpha1.EvaluationRun) []Verdict {
	conditions := run.Status.Conditions
	complete := meta.FindStatusCondition(conditions, v1alpha1.ConditionComplete)
	state, message := StateOf(run)
	own := Verdict{state, "busy", message}
	switch {
	case missedThreshold(run), meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFailed):
		own.Kind = "bad"
	case complete != nil && complete.Status == metav1.ConditionTrue && complete.Reason == state:
		own = Verdict{state, "good", ""} // the tiles have the figures of its message
	case complete != nil && complete.Status == metav1.ConditionTrue:
		own.Kind = ""
	}
	kinds := map[metav1.ConditionStatus]string{metav1.ConditionTrue: "good", metav1.ConditionFalse: "bad"}
	out := []Verdict{own}
	for _, name := range []string{v1alpha1.ConditionThresholdsMet, v1alpha1.ConditionCompared,
		v1alpha1.ConditionResultsStored} {
		c := meta.FindStatusCondition(conditions, name)
		if c == nil || c.Reason == state ||
			name != v1alpha1.ConditionThresholdsMet && c.Status == metav1.ConditionTrue {
			continue
		}
		out = append(out, Verdict{c.Reason, kinds[c.Status], c.Message})
	}
	return out
}

// missedThreshold reports whether a run is complete and below a threshold.
func missedThreshold(run *v1alpha1.EvaluationRun) bool {
	return meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionComplete) &&
		meta.IsStatusConditionFalse(run.Status.Conditions, v1alpha1.ConditionThresholdsMet)
}

// advise says what the run waits for and what to do.
func (v *RunView) advise(run *v1alpha1.EvaluationRun) {
	if run.ResourceVersion == "" {
		// A stored run without a namespace was played by csenv eval.
		if run.Namespace == "" && !meta.IsStatusConditionTrue(run.Status.Conditions, v1alpha1.ConditionComplete) {
			v.Advice = "The same csenv eval command plays the episodes that are missing or errored."
		}
		return
	}
	found, advice := cluster.FindAdvice(run)
	if !slices.ContainsFunc(v.States, func(s Verdict) bool { return s.Text+": "+s.Message == found }) {
		v.Waits = found
	}
	v.Command = command.FindString(advice)
	v.Advice = strings.TrimSuffix(advice, v.Command)
}

// command finds the command that ends a piece of advice.
var command = regexp.MustCompile(`\b(kubectl|csenv run) .*$`)

// addGroups adds the scopes that have several groups: the figures of a single one are the run's.
func (v *RunView) addGroups(rows []figureRow) {
	headings := map[string]string{"task": "By task", "category": "By category or family",
		"difficulty": "By difficulty", "language": "By language"}
	for _, row := range rows[1:] {
		if row.Scope == "dimension" {
			v.Dimensions = append(v.Dimensions, row)
			continue
		}
		if last := len(v.Groups) - 1; last < 0 || v.Groups[last].Scope != row.Scope {
			v.Groups = append(v.Groups, groupTable{Scope: row.Scope, Heading: headings[row.Scope]})
		}
		table := &v.Groups[len(v.Groups)-1]
		table.Rows = append(table.Rows, row)
	}
	v.Groups = slices.DeleteFunc(v.Groups, func(g groupTable) bool { return len(g.Rows) == 1 })
}

func (v *RunView) addHistogram(s *v1alpha1.EvaluationRunStatus) {
	var sums score.Accumulator
	if s.Shards == nil || sums.UnmarshalText([]byte(s.Shards.Accumulator)) != nil {
		return
	}
	v.Histogram = &chart.Histogram{Counts: sums.Histogram()}
	if v.Episodes != "" {
		v.Histogram.Link = func(low, high string) string {
			return v.Episodes + "?" + url.Values{"min": {low}, "max": {high}}.Encode()
		}
	}
}

// publish removes what a public page doesn't show.
func (v *RunView) publish() {
	v.Waits, v.Advice, v.Command = "", "", ""
	for i := range v.States {
		v.States[i].Message = ""
	}
	if v.Baseline != nil {
		baseline := *v.Baseline
		baseline.Message = ""
		v.Baseline = &baseline
	}
	v.Conditions = slices.Clone(v.Conditions)
	for i := range v.Conditions {
		v.Conditions[i].Message = ""
	}
	v.Facts = slices.DeleteFunc(v.Facts, func(f Fact) bool { return f.Name == storedIn })
}

// newProgress counts the episodes of a run and extrapolates its end.
func newProgress(run *v1alpha1.EvaluationRun, now time.Time) Progress {
	s := &run.Status
	p := Progress{RunEpisodes: ptr.Deref(s.Episodes, v1alpha1.RunEpisodes{}), Ended: evaluation.HasEnded(s.Conditions)}
	p.Done = p.Counted() + p.Errored
	if s.StartTime == nil {
		return p
	}
	p.Started = view.FormatUTC(s.StartTime.Time)
	end := now
	if s.CompletionTime != nil {
		end = s.CompletionTime.Time
	}
	// Before an attempt began, others played, and nobody did in between.
	took := end.Sub(cmp.Or(s.AttemptTime, s.StartTime).Time)
	if took <= 0 {
		return p
	}
	p.Took = took.Round(time.Second).String()
	if s.AttemptTime == nil && p.Done > 0 {
		p.Rate = fmt.Sprintf("%.1f episodes per minute", float64(p.Done)/took.Minutes())
	}
	if s.EstimatedCompletionTime != nil && !p.Ended {
		p.Ends = view.FormatUTC(s.EstimatedCompletionTime.Time)
	}
	return p
}
