package rules

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/pods"
)

// Rule gives a condition a reason. Of the rules of a condition, the first that holds counts.
type Rule struct {
	Condition string
	Status    metav1.ConditionStatus
	Reason    string
	// When says for people when the rule holds.
	When string
	// Advice says what people do about it, empty if nothing. NAMESPACE, POOL, SERVER, KEY_SECRET
	// and PUBLIC_KEY are replaced in messages.
	Advice string
	// check returns what has happened, "" if the rule doesn't hold, and details that follow the
	// advice.
	check func(facts) (what, detail string)
}

// facts are what rules check.
type facts struct {
	env       *v1alpha1.CustomerSupportEnv
	image     string // of the servers
	wanted    int32  // servers
	counts    snapshot.Counts
	changing  bool // an object was written, or the Deployment's counts are older than its spec
	postponed bool // the Deployment of another release of the operator stays for now
	stuck     bool // the rolling update exceeded its deadline
	degraded  bool // a rule of Degraded holds
	limit     string
	taken     []children.ID // names that other objects have
	writeErr  error         // what the API server refused
	keyErr    error         // why the ledger key can't be read
	refusal   string        // why the pods can't be created
	packError string        // what servers of the newest template say of changed packs
	faulty    *corev1.Pod   // the first server that a rule of servers holds for
	unjudged  string        // a server whose judge can't grade
	unjudging string        // why it can't
	silent    []string      // servers that are ready and don't answer
	listed    int           // servers
	now       time.Time
}

// isSuspended reports whether the spec suspends the pool.
func (f facts) isSuspended() bool { return f.env.Spec.OperatingMode == v1alpha1.SuspendedMode }

// isAutoscaled reports whether the number of servers follows the sessions.
func (f facts) isAutoscaled() bool { return f.env.Spec.Autoscaling != nil }

// sources are whose words the details of a reason are. What is known about them is better advice
// than that of the rule.
var sources = map[string]pods.Source{
	v1alpha1.ReasonApplyFailed: pods.APIServer, v1alpha1.ReasonPodsRefused: pods.APIServer,
	v1alpha1.ReasonUnschedulable: pods.Scheduler, v1alpha1.ReasonImagePullFailed: pods.Registry,
	v1alpha1.ReasonStartFailed: pods.Kubelet,
}

// findRule returns the first rule that holds and its message, or nil.
func findRule(rules []Rule, f facts) (*Rule, string) {
	for i := range rules {
		if what, detail := rules[i].check(f); what != "" {
			known := pods.Advise(pods.Server, sources[rules[i].Reason], detail)
			return &rules[i], writeMessage(f, what, cmp.Or(known, rules[i].Advice), detail)
		}
	}
	return nil, ""
}

// setCondition returns the condition of the first rule that holds. The last of a condition always
// does.
func setCondition(rules []Rule, f facts) metav1.Condition {
	rule, message := findRule(rules, f)
	return metav1.Condition{Type: rule.Condition, Status: rule.Status, Reason: rule.Reason, Message: message}
}

// writeMessage joins what has happened, the advice and the details.
func writeMessage(f facts, what, advice, detail string) string {
	if advice == "" {
		return what
	}
	names := []string{"NAMESPACE", f.env.Namespace, "POOL", f.env.Name, "KEY_SECRET",
		keys.SecretName(f.env.Name, f.env.Status.LedgerPublicKey), "PUBLIC_KEY", f.env.Status.LedgerPublicKey}
	if f.faulty != nil {
		names = append(names, "SERVER", f.faulty.Name)
	}
	message := what + " " + strings.NewReplacer(names...).Replace(advice)
	if detail == "" {
		return message + "."
	}
	return message + ": " + detail
}

// replaceKey creates a new key with the rights of the pool's editors.
const replaceKey = "`kubectl annotate customersupportenv -n NAMESPACE POOL --overwrite " +
	v1alpha1.AnnotationReplaceLedgerKey + "=PUBLIC_KEY`"

// describeIf returns a check with a constant text.
func describeIf(holds func(facts) bool, what string) func(facts) (what, detail string) {
	return func(f facts) (string, string) {
		if !holds(f) {
			return "", ""
		}
		return what, ""
	}
}

// describeNumbers returns a text without details, "" if the rule doesn't hold.
func describeNumbers(holds bool, format string, args ...any) (what, detail string) {
	if !holds {
		return "", ""
	}
	return fmt.Sprintf(format, args...), ""
}
