//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
)

// poolManifest returns the manifest of a pool of one server.
func poolManifest(name, environment string) string {
	return fmt.Sprintf(`
apiVersion: csenv.dev/v1alpha1
kind: CustomerSupportEnv
metadata: {name: %s}
spec:
  environment: %s
  drainTimeoutSeconds: 5
`, name, environment)
}

// runManifest returns the manifest of a run of a built-in policy, with extra lines in its spec.
func runManifest(name, pool, policy string, tasks []string, extra ...string) string {
	return agentManifest(name, pool, fmt.Sprintf("{type: Builtin, builtin: {policy: %s}}", policy), tasks, extra...)
}

// agentManifest returns the manifest of a run of an agent, with extra lines in its spec.
func agentManifest(name, pool, agent string, tasks []string, extra ...string) string {
	return fmt.Sprintf(`
apiVersion: csenv.dev/v1alpha1
kind: EvaluationRun
metadata: {name: %s}
spec:
  environmentRef: {name: %s}
  agent: %s
  tasks: [%s]
  %s
`, name, pool, agent, strings.Join(tasks, ", "), strings.Join(extra, "\n  "))
}

func task(name string, trials int) string {
	return fmt.Sprintf("{name: %s, trials: %d}", name, trials)
}

// awaitPool waits until the pool accepts sessions and its status lists its tasks.
func awaitPool(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		pool := &v1alpha1.CustomerSupportEnv{}
		g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pool)).To(Succeed())
		g.Expect(pool.Status.Conditions).To(ContainElement(haveCondition(v1alpha1.ConditionAvailable,
			metav1.ConditionTrue)))
		g.Expect(pool.Status.Tasks).NotTo(BeEmpty())
	}).Should(Succeed())
}

// awaitComplete waits until the run is complete.
func awaitComplete(ctx context.Context, name string) *v1alpha1.EvaluationRun {
	GinkgoHelper()
	evalrun := &v1alpha1.EvaluationRun{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(k8s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, evalrun)).To(Succeed())
		failed := meta.FindStatusCondition(evalrun.Status.Conditions, v1alpha1.ConditionFailed)
		if failed != nil && failed.Status == metav1.ConditionTrue {
			StopTrying(failed.Reason + ": " + failed.Message).Now()
		}
		g.Expect(evalrun.Status.Conditions).To(ContainElement(haveCondition(v1alpha1.ConditionComplete,
			metav1.ConditionTrue)))
	}).Should(Succeed())
	return evalrun
}

// haveCondition matches a condition of that type and status.
func haveCondition(conditionType string, status metav1.ConditionStatus) OmegaMatcher {
	return And(HaveField("Type", conditionType), HaveField("Status", status))
}

// haveReason matches a condition of that type, status and reason whose message contains each of the
// words.
func haveReason(conditionType string, status metav1.ConditionStatus, reason string, words ...string) OmegaMatcher {
	matchers := []OmegaMatcher{haveCondition(conditionType, status), HaveField("Reason", reason)}
	for _, word := range words {
		matchers = append(matchers, HaveField("Message", ContainSubstring(word)))
	}
	return And(matchers...)
}
