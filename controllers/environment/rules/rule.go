package rules

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
	"github.com/csenv/csenv/controllers/rule"
)

// Rule gives a condition, its stage, a status and a reason.
type Rule = rule.Rule[*pass, metav1.ConditionStatus]

// Table has all rules, in the order of their conditions and of their checks.
var Table = slices.Concat(available, progressing, faults, scaling)

// The stages are the conditions, and ofServer, whose rules are asked about one server.
const (
	Available rule.Stage = 1 << iota
	Progressing
	Degraded
	ScalingLimited
	ofServer
)

const (
	isTrue, isFalse = metav1.ConditionTrue, metav1.ConditionFalse
	warning         = corev1.EventTypeWarning
)

// NameCondition names the condition of a rule's stage.
func NameCondition(stage rule.Stage) string {
	switch stage &^ ofServer {
	case Available:
		return v1alpha1.ConditionAvailable
	case Progressing:
		return v1alpha1.ConditionProgressing
	case Degraded:
		return v1alpha1.ConditionDegraded
	default:
		return v1alpha1.ConditionScalingLimited
	}
}

// FindEventType returns the type of the event that announces a condition.
func FindEventType(c metav1.Condition) string {
	if slices.ContainsFunc(Table, func(r Rule) bool {
		return r.Event == warning && NameCondition(r.Stage) == c.Type && r.State == c.Status && r.Reason == c.Reason
	}) {
		return warning
	}
	return corev1.EventTypeNormal
}

// pass is what the rules are asked about: a decision and what was written of it.
type pass struct {
	Decision
	Written
	counts snapshot.Counts
	faulty *corev1.Pod // the first server that a rule of servers holds for, an empty pod if there is none
}

func newPass(d Decision, w Written) *pass {
	p := &pass{Decision: d, Written: w, counts: snapshot.CountServers(d.Snapshot)}
	servers := snapshot.ListStaying(d.Snapshot)
	for i := range servers {
		p.faulty = &servers[i]
		if r, _ := rule.First(serverFaults, ofServer, p); r != nil {
			return p
		}
	}
	p.faulty = &corev1.Pod{}
	return p
}

// setCondition returns the condition of the first rule that holds. The last of a condition always
// does.
func (p *pass) setCondition(stage rule.Stage) metav1.Condition {
	r, f := rule.First(Table, stage, p)
	return metav1.Condition{Type: NameCondition(stage), Status: r.State, Reason: r.Reason, Message: r.Message(p, f)}
}

// Names are the names in advices.
func (p *pass) Names() []string {
	public := p.Env.Status.LedgerPublicKey
	return []string{"NAMESPACE", p.Env.Namespace, "POOL", p.Env.Name, "SERVER", p.faulty.Name,
		"KEY_SECRET", keys.SecretName(p.Env.Name, public), "PUBLIC_KEY", public}
}

// wantedServers is the number of servers.
func (p *pass) wantedServers() int32 { return p.Servers(p.Unmarked) }

func (p *pass) isSuspended() bool { return p.Env.Spec.OperatingMode == v1alpha1.SuspendedMode }

// isAutoscaled reports whether the number of servers follows the sessions.
func (p *pass) isAutoscaled() bool { return p.Env.Spec.Autoscaling != nil }

// isChanging reports whether an object was written, or the Deployment's counts are older than its
// spec.
func (p *pass) isChanging() bool {
	return p.Applied || p.Unmarked || p.Held || !snapshot.IsObserved(p.Deployment())
}

// isDegraded reports whether a rule of Degraded says so.
func (p *pass) isDegraded() bool {
	r, _ := rule.First(faults, Degraded, p)
	return r.State == isTrue
}

// findRefusal returns why the pods can't be created, "" if they can.
func (p *pass) findRefusal() string {
	c := snapshot.FindCondition(p.Deployment(), appsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return ""
	}
	return c.Message
}

// findPackError returns what servers of the newest template say of changed packs.
func (p *pass) findPackError() string {
	for _, report := range p.NewestReports(p.Scenarios) {
		if report.Packs != nil && report.Packs.Error != "" {
			return report.Packs.Error
		}
	}
	return ""
}

// listSilent lists the servers that are ready and don't answer.
func (p *pass) listSilent() []string {
	var silent []string
	for _, pod := range snapshot.ListStaying(p.Snapshot) {
		if _, answered := p.Reports[pod.Name]; !answered && pods.IsReady(&pod) && !slices.Contains(p.Unasked, pod.UID) {
			silent = append(silent, pod.Name)
		}
	}
	return silent
}

// findUnjudged returns a server whose judge can't grade, and why, "" if there is none.
func (p *pass) findUnjudged() (server, why string) {
	for _, pod := range snapshot.ListStaying(p.Snapshot) {
		if fault := p.Reports[pod.Name].JudgeFault; fault != "" {
			return pod.Name, fault
		}
	}
	return "", ""
}

// addAdvice is a finding with somebody's details, for which there may be more specific advice.
func (p *pass) addAdvice(whose pods.Source, what, detail string) rule.Finding {
	return rule.Finding{What: what, Detail: detail, Advice: pods.Advise(pods.Server, whose, detail)}
}

// quoteFinding is a finding with the words of another.
func quoteFinding(what, words string) rule.Finding {
	return rule.Finding{What: what, Detail: pods.QuoteMessage(words)}
}

func newFinding(format string, args ...any) rule.Finding {
	return rule.Finding{What: fmt.Sprintf(format, args...)}
}

// replaceKey creates a new key with the rights of the pool's editors.
const replaceKey = "`kubectl annotate customersupportenv -n NAMESPACE POOL --overwrite " +
	v1alpha1.AnnotationReplaceLedgerKey + "=PUBLIC_KEY`"

// describeIf returns a check with a constant text.
func describeIf(holds func(*pass) bool, what string) func(*pass) rule.Finding {
	return func(p *pass) rule.Finding { return describeNumbers(holds(p), "%s", what) }
}

// describeNumbers is a finding without details, none if the rule doesn't hold.
func describeNumbers(holds bool, format string, args ...any) rule.Finding {
	if !holds {
		return rule.Finding{}
	}
	return newFinding(format, args...)
}
