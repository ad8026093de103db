package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// maxNote is the most that an event's note holds, and what conditions keep to.
	maxNote = 1024
	// maxQuote is how much of a pod's words a message repeats.
	maxQuote = 300
	// maxCategories is how many categories a status lists, and a plan may have.
	maxCategories = 32
)

// progress is where a run stands.
type progress struct {
	state   state
	reason  string
	message string
}

type state int

const (
	waiting state = iota
	running
	completed
	failed
)

// setConditions sets every condition, whatever has happened, and announces the ends.
func setConditions(d *decision, s snapshot, p progress) {
	end := condition(v1alpha1.ConditionFailed, metav1.ConditionFalse, v1alpha1.ReasonNotFailed, "Nothing has ended the run early.")
	complete := condition(v1alpha1.ConditionComplete, metav1.ConditionFalse, p.reason, p.message)
	switch p.state {
	case completed:
		complete.Status = metav1.ConditionTrue
		d.events = append(d.events, event{corev1.EventTypeNormal, p.reason, p.message})
	case failed:
		end = condition(v1alpha1.ConditionFailed, metav1.ConditionTrue, p.reason, p.message)
		d.events = append(d.events, event{corev1.EventTypeWarning, p.reason, p.message})
	case waiting, running:
	}
	environment := environmentCondition(s)
	before := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionEnvironmentReady)
	if environment.Status != metav1.ConditionTrue && (before == nil || before.Reason != environment.Reason) {
		d.events = append(d.events, event{environmentEventType(environment.Reason), environment.Reason, environment.Message})
	}
	for _, c := range []metav1.Condition{environment, complete, end} {
		c.ObservedGeneration = s.run.Generation
		c.LastTransitionTime = metav1.NewTime(s.now)
		meta.SetStatusCondition(&d.status.Conditions, c)
	}
}

// environmentEventType takes a pool that isn't up yet as usual: it is often applied together with its runs.
func environmentEventType(reason string) string {
	if reason == v1alpha1.ReasonEnvironmentNotAvailable {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: truncate(message)}
}

// environmentCondition says whether the pool exists, accepts sessions and can be read.
func environmentCondition(s snapshot) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, reason, fmt.Sprintf(format, args...))
	}
	name := s.run.Spec.EnvironmentRef.Name
	if s.env == nil {
		return no(v1alpha1.ReasonEnvironmentNotFound, "There is no CustomerSupportEnv %s in namespace %s. Create it, and the run goes on.", name, s.run.Namespace)
	}
	available := meta.FindStatusCondition(s.env.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case available == nil:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s has no status yet.", name)
	case available.Status != metav1.ConditionTrue:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s is not available: %s", name, available.Message)
	case s.reportErr != nil:
		return no(v1alpha1.ReasonEnvironmentUnreachable, "What pool %s offers can't be read: %v. The operator tries again.", name, s.reportErr)
	}
	if _, err := score.ParsePublicKey(s.env.Status.LedgerPublicKey); err != nil || s.env.Status.ScenarioDigest == "" {
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s hasn't told its scenarios and ledger key yet.", name)
	}
	return condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionTrue, v1alpha1.ReasonEnvironmentAvailable, fmt.Sprintf("Pool %s accepts sessions.", name))
}

// runningMessage says how far the run is, and what holds it up if something does.
func runningMessage(d *decision, s snapshot) string {
	message := fmt.Sprintf("%d of %d shards are in the figures.", d.folding.completed.Len(), d.status.Shards.Total)
	if len(s.taken) > 0 {
		return fmt.Sprintf("%s %s belongs to something else. Delete it, and the run goes on.", message, strings.Join(s.taken, ", "))
	}
	if why, _ := startTrouble(s.pods); why != "" {
		return fmt.Sprintf("%s A runner can't start: %s.", message, strings.TrimSuffix(why, "."))
	}
	for i := range s.pods {
		for _, c := range s.pods[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return fmt.Sprintf("%s No node takes runner pod %s: %s", message, s.pods[i].Name, quote(c.Message))
			}
		}
	}
	return message
}

// provenance is what a run that begins now is made with.
func provenance(s snapshot) (*v1alpha1.Provenance, error) {
	agent, err := digest(s.run.Spec.Agent)
	if err != nil {
		return nil, err
	}
	spec := s.run.Spec.DeepCopy()
	spec.Parallelism = nil
	hash, err := digest(spec)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Provenance{
		Image: s.env.Status.Image, OperatorVersion: s.options.Version,
		ScenarioDigest: s.report.ScenarioDigest, GraderVersion: s.report.GraderVersion, Judge: s.report.Judge,
		AgentDigest: agent, Seed: new(ptr.Deref(s.run.Spec.Seed, 0)), SpecHash: hash,
	}, nil
}

// digest is "sha256:" and the hex digest of a value's JSON.
func digest(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("digesting %T: %w", v, err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// writeFigures writes what the sums come to. The number of shards and of episodes planned stays.
func writeFigures(status *v1alpha1.EvaluationRunStatus, sums score.Accumulator, done score.IndexSet) {
	text, err := sums.MarshalText()
	if err != nil {
		// MarshalText has no way to fail; its signature is encoding.TextMarshaler's.
		panic(fmt.Sprintf("encoding sums: %v", err))
	}
	status.Shards.Accumulator, status.Shards.CompletedIndexes = string(text), done.String()
	f := sums.Figures()
	status.Episodes.Scored, status.Episodes.Failed = f.Scored, f.Failed
	status.Episodes.Errored, status.Episodes.Retried = f.Errored, f.Retried
	status.Progress = fmt.Sprintf("%d/%d", f.Episodes+f.Errored, status.Episodes.Total)
	if f.EpisodeP50 > 0 {
		status.Durations = &v1alpha1.Durations{EpisodeP50: seconds(f.EpisodeP50), EpisodeP99: seconds(f.EpisodeP99)}
	}
	if f.Episodes == 0 {
		return
	}
	status.Score = estimate(f.Estimate, f.Min, f.P50, f.Max)
	status.PassRate = score.Decimal(f.PassRate)
	status.PassHatK = nil
	for _, p := range f.PassHatK {
		status.PassHatK = append(status.PassHatK, v1alpha1.PassHat{K: int32(p.K), Value: score.Decimal(p.Value)}) //nolint:gosec // at most score.MaxK
	}
	status.Tasks, status.Categories = taskResults(f.Tasks), categoryResults(f.Categories)
}

// seconds writes milliseconds as seconds.
func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

func taskResults(tasks []score.TaskFigures) []v1alpha1.TaskResult {
	results := make([]v1alpha1.TaskResult, len(tasks))
	for i, t := range tasks {
		results[i] = v1alpha1.TaskResult{Name: t.Name, Episodes: t.Episodes, Score: estimate(t.Estimate, t.Min, t.P50, t.Max), PassRate: score.Decimal(t.PassRate)}
		for _, dim := range t.Dimensions {
			results[i].Dimensions = append(results[i].Dimensions, v1alpha1.DimensionResult{Name: dim.Name, Mean: score.Decimal(dim.Mean), Max: score.Decimal(dim.Max)})
		}
	}
	return results
}

func categoryResults(groups []score.GroupFigures) []v1alpha1.CategoryResult {
	results := make([]v1alpha1.CategoryResult, len(groups))
	for i, g := range groups {
		s := estimate(g.Estimate, 0, 0, 0)
		s.Min, s.P50, s.Max = "", "", ""
		results[i] = v1alpha1.CategoryResult{Name: g.Name, Episodes: g.Episodes, Score: s, PassRate: score.Decimal(g.PassRate)}
	}
	return results
}

func estimate(e score.Estimate, least, median, most int64) *v1alpha1.Score {
	s := &v1alpha1.Score{Mean: score.Decimal(e.Mean), Min: score.Decimal(least), P50: score.Decimal(median), Max: score.Decimal(most)}
	if e.CI95 != nil {
		s.StandardError = score.Decimal(*e.StandardError)
		s.CI95 = &v1alpha1.Interval{Low: score.Decimal(e.CI95.Low), High: score.Decimal(e.CI95.High)}
	}
	return s
}

// quote shortens somebody else's words and drops what isn't text.
func quote(words string) string {
	return cut(strings.ToValidUTF8(strings.Join(strings.Fields(words), " "), "?"), maxQuote)
}

func truncate(message string) string { return cut(message, maxNote) }

// cut shortens a text to a number of bytes, at a character's edge.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const ellipsis = "…"
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
