package run

import (
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/envserver/score"
)

const (
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
	end := condition(v1alpha1.ConditionFailed, metav1.ConditionFalse, v1alpha1.ReasonNotFailed,
		"Nothing has ended the run early.")
	complete := condition(v1alpha1.ConditionComplete, metav1.ConditionFalse, p.reason, p.message)
	switch p.state {
	case completed:
		complete.Status = metav1.ConditionTrue
		d.tell(corev1.EventTypeNormal, p.reason, p.message)
	case failed:
		end = condition(v1alpha1.ConditionFailed, metav1.ConditionTrue, p.reason, p.message)
		d.tell(corev1.EventTypeWarning, p.reason, p.message)
	case waiting, running:
	}
	environment, suspension := environmentCondition(s), suspendedCondition(s.run)
	announce(d, s, environment, suspension, complete, end)
	conditions := append([]metav1.Condition{environment, suspension, complete, end}, optional(d, s, p)...)
	for _, c := range conditions {
		c.ObservedGeneration = s.run.Generation
		c.LastTransitionTime = metav1.NewTime(s.now)
		meta.SetStatusCondition(&d.status.Conditions, c)
	}
}

// optional are the conditions that a spec asks for. An end that isn't what was asked for is
// announced.
func optional(d *decision, s snapshot, p progress) []metav1.Condition {
	var conditions []metav1.Condition
	if len(s.run.Spec.Thresholds) > 0 {
		conditions = append(conditions, thresholdsCondition(s.run.Spec.Thresholds, d.folding.sums, p.state))
	}
	if s.run.Spec.Results != nil {
		conditions = append(conditions, storedCondition(d.folding.sums, p.state))
	}
	for _, c := range conditions {
		if (p.state == completed || p.state == failed) && c.Status == metav1.ConditionFalse {
			d.tell(corev1.EventTypeWarning, c.Reason, c.Message)
		}
	}
	return conditions
}

// holdUps are the reasons for which a run that has its pool isn't played for a time, with the types
// of their events.
var holdUps = map[string]string{
	v1alpha1.ReasonQueued: corev1.EventTypeNormal, v1alpha1.ReasonNameTaken: corev1.EventTypeWarning,
	v1alpha1.ReasonRunnersNotStarted: corev1.EventTypeWarning, v1alpha1.ReasonUnschedulable: corev1.EventTypeWarning,
}

// announce tells of what changes about the pool, about the run's suspension and about what holds it
// up.
func announce(d *decision, s snapshot, environment, suspension, complete, end metav1.Condition) {
	before := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionEnvironmentReady)
	if environment.Status != metav1.ConditionTrue && (before == nil || before.Reason != environment.Reason) {
		d.tell(environmentEventType(environment.Reason), environment.Reason, environment.Message)
	}
	was := meta.IsStatusConditionTrue(s.run.Status.Conditions, v1alpha1.ConditionSuspended)
	switch is := suspension.Status == metav1.ConditionTrue; {
	case is && !was:
		d.tell(corev1.EventTypeNormal, v1alpha1.ReasonSuspended, suspension.Message)
	case was && !is:
		note := "The run goes on with the shards that are not in the figures yet."
		if isExternal(s.run) {
			note = "The run collects again what trainers bring."
		}
		d.tell(corev1.EventTypeNormal, v1alpha1.ReasonResumed, note)
	}
	stood := meta.FindStatusCondition(s.run.Status.Conditions, v1alpha1.ConditionComplete)
	if kind := holdUps[complete.Reason]; kind != "" && (stood == nil || stood.Reason != complete.Reason) &&
		end.Status != metav1.ConditionTrue {
		d.tell(kind, complete.Reason, complete.Message)
	}
}

func suspendedCondition(run *v1alpha1.EvaluationRun) metav1.Condition {
	switch {
	case suspended(run) && isExternal(run):
		return condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			"spec.suspend is true: nothing is collected. Episodes wait on the servers that play them, as long as "+
				"those have room and live. Set it to false, and the run goes on.")
	case suspended(run):
		return condition(v1alpha1.ConditionSuspended, metav1.ConditionTrue, v1alpha1.ReasonSuspended,
			"spec.suspend is true: runners are told to go, and the shards that they have not finished are played "+
				"again later. Set it to false, and the run goes on.")
	}
	return condition(v1alpha1.ConditionSuspended, metav1.ConditionFalse, v1alpha1.ReasonNotSuspended,
		"spec.suspend is not set.")
}

// environmentEventType takes a pool that isn't up yet as usual: it is often applied together with
// its runs.
func environmentEventType(reason string) string {
	if reason == v1alpha1.ReasonEnvironmentNotAvailable {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: pods.Shorten(message, pods.MaxNote)}
}

// environmentCondition says whether the pool exists, may be used, accepts sessions and can be read.
// Of a pool in another namespace that doesn't admit the run's, a run learns nothing, not even
// whether it exists.
func environmentCondition(s snapshot) metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionFalse, reason,
			fmt.Sprintf(format, args...))
	}
	key := poolKeyOf(s.run)
	name := key.Name
	switch {
	case s.env == nil && key.Namespace != s.run.Namespace:
		return no(v1alpha1.ReasonNamespaceNotAllowed, "No CustomerSupportEnv %s in namespace %s admits runs of "+
			"namespace %s. Correct spec.environmentRef, or ask whoever owns the pool to admit the namespace in "+
			"access.allowedNamespaces.",
			name, key.Namespace, s.run.Namespace)
	case s.env == nil:
		return no(v1alpha1.ReasonEnvironmentNotFound, "There is no CustomerSupportEnv %s in namespace %s. Create it, "+
			"and the run goes on.", name, key.Namespace)
	case s.env.Spec.Access.TokenSecretRef != nil && poolToken(s) == nil && !isExternal(s.run):
		return no(v1alpha1.ReasonTokenMissing, "Pool %s asks for a token. Put it into a Secret of namespace %s and "+
			"create the run again with spec.environmentRef.tokenSecretRef.", name, s.run.Namespace)
	}
	available := meta.FindStatusCondition(s.env.Status.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case available == nil:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s has no status yet.", name)
	case available.Status != metav1.ConditionTrue:
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s is not available: %s", name,
			available.Message+degradation(s))
	case s.reportErr != nil:
		return no(v1alpha1.ReasonEnvironmentUnreachable,
			"What pool %s offers can't be read: %v. The operator tries again.", name, s.reportErr)
	}
	if _, err := score.ParsePublicKey(s.env.Status.LedgerPublicKey); err != nil || s.env.Status.ScenarioDigest == "" {
		return no(v1alpha1.ReasonEnvironmentNotAvailable, "Pool %s hasn't told its scenarios and ledger key yet.", name)
	}
	return condition(v1alpha1.ConditionEnvironmentReady, metav1.ConditionTrue, v1alpha1.ReasonEnvironmentAvailable,
		fmt.Sprintf("Pool %s accepts sessions.", name))
}

// degradation is what is wrong with the pool, for runs of its own namespace: it may quote what
// others aren't to see.
func degradation(s snapshot) string {
	c := meta.FindStatusCondition(s.env.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || c.Status != metav1.ConditionTrue || s.env.Namespace != s.run.Namespace {
		return ""
	}
	return " " + c.Message
}

// poolToken is where the run's runners find the pool's token, nil where the run names none. A
// Secret of the pool's own namespace is out of reach for pods of another.
func poolToken(s snapshot) *v1alpha1.SecretKeyReference {
	switch ref := s.run.Spec.EnvironmentRef.TokenSecretRef; {
	case ref != nil:
		return ref
	case s.env != nil && s.env.Namespace == s.run.Namespace:
		return s.env.Spec.Access.TokenSecretRef
	default:
		return nil
	}
}

// inProgress says where a run stands that goes on.
func inProgress(d *decision, s snapshot) progress {
	switch {
	case suspended(s.run):
		return progress{running, v1alpha1.ReasonSuspended, shardsMessage(d) + " Set spec.suspend to false, and the " +
			"run goes on with the rest."}
	case heldByQueue(s):
		return progress{running, v1alpha1.ReasonQueued, fmt.Sprintf("%s Job %s waits until queue %s admits it.",
			shardsMessage(d), s.job.Name, s.run.Labels[labelQueue])}
	default:
		return inPlay(d, s)
	}
}

func shardsMessage(d *decision) string {
	return fmt.Sprintf("%d of %d shards are in the figures.", d.folding.completed.Len(), d.status.Shards.Total)
}

// completedMessage is why the run is complete, and the score in words.
func completedMessage(why string, status v1alpha1.EvaluationRunStatus) string {
	e := status.Episodes
	all := e.Scored + e.Failed + e.Errored
	if status.Score == nil {
		return fmt.Sprintf("%s: all of %s errored.", why, count(all, "episode"))
	}
	message := fmt.Sprintf("%s: %s, mean score %s, pass rate %s; %d failed by the agent's fault, %d errored and are "+
		"in no score.",
		why, count(all, "episode"), scoreOf(status), status.PassRate, e.Failed, e.Errored)
	if retried := byClass(status.Errors, func(e v1alpha1.ErrorCount) int64 { return e.Retried }); retried != "" {
		message += fmt.Sprintf(" Attempts that failed and were made again: %s.", retried)
	}
	return message
}

// byClass lists the classes of errors that have any, with how many.
func byClass(counts []v1alpha1.ErrorCount, of func(v1alpha1.ErrorCount) int64) string {
	var classes []string
	for _, e := range counts {
		if n := of(e); n > 0 {
			classes = append(classes, fmt.Sprintf("%s %d", e.Class, n))
		}
	}
	return strings.Join(classes, ", ")
}

// scoreOf is the mean with its interval.
func scoreOf(status v1alpha1.EvaluationRunStatus) string {
	switch score := status.Score; {
	case score == nil:
		return "not known"
	case score.CI95 == nil:
		return score.Mean
	default:
		return fmt.Sprintf("%s (95 %% interval %s to %s)", score.Mean, score.CI95.Low, score.CI95.High)
	}
}

// inPlay says how far the run is, and what holds it up if something does.
func inPlay(d *decision, s snapshot) progress {
	going := func(reason, format string, args ...any) progress {
		return progress{running, reason, shardsMessage(d) + " " + fmt.Sprintf(format, args...)}
	}
	if len(s.taken) > 0 {
		return going(v1alpha1.ReasonNameTaken, "%s belongs to something else. Delete it, and the run goes on.",
			strings.Join(s.taken, ", "))
	}
	if why, _ := startTrouble(s.pods); why != "" {
		return going(v1alpha1.ReasonRunnersNotStarted, "A runner can't start: %s.", strings.TrimSuffix(why, "."))
	}
	for i := range s.pods {
		for _, c := range s.pods[i].Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return going(v1alpha1.ReasonUnschedulable, "No node takes runner pod %s: %s", s.pods[i].Name,
					pods.Quote(c.Message))
			}
		}
	}
	return going(v1alpha1.ReasonRunning, "To see what the runners do: %s", logsCommand(s.run))
}

// logsCommand shows what the run's runners have to say.
func logsCommand(run *v1alpha1.EvaluationRun) string {
	return fmt.Sprintf("kubectl logs -n %s -l %s=%s", run.Namespace, v1alpha1.LabelRun, run.Name)
}

// count is a number of things, "1 shard" or "4 shards".
func count(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// agentName is who plays, in a word.
func agentName(agent v1alpha1.Agent) string {
	switch {
	case agent.Builtin != nil:
		return string(agent.Builtin.Policy)
	case agent.OpenAI != nil:
		return agent.OpenAI.Model
	case agent.HTTP != nil:
		if u, err := url.Parse(agent.HTTP.URL); err == nil {
			return u.Host
		}
		return agent.HTTP.URL
	case agent.Container != nil:
		return agent.Container.Image
	default:
		return string(agent.Type)
	}
}
