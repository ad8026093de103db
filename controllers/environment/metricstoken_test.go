package environment

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// tokenReader is a server that obeys one token.
type tokenReader string

func (r tokenReader) Report(_ context.Context, _, token string, _ ...string) (score.Report, error) {
	if token != string(r) {
		return score.Report{}, errors.New("401")
	}
	return report(1), nil
}

// The operator shares a pool's secrets with its servers and with Prometheus, also after a new key.
func TestReconcileSharesTheKeysSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	reader := objects.NewKeyReader(w)
	w.reconciler.reader.Keys, w.reconciler.secrets.keys = reader, reader
	metricsToken := func() string {
		t.Helper()
		secret := &corev1.Secret{}
		if err := w.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "support-metrics-token"},
			secret); err != nil {
			t.Fatal(err)
		}
		if !metav1.IsControlledBy(secret, w.pool(t)) {
			t.Error("the Secret isn't deleted with the pool")
		}
		return string(secret.Data["token"])
	}
	wanted := func() *poolkey.Secrets {
		t.Helper()
		secrets, err := reader.Secrets(t.Context(), client.ObjectKeyFromObject(w.pool(t)),
			w.pool(t).Status.LedgerPublicKey)
		if err != nil {
			t.Fatal(err)
		}
		return secrets
	}
	w.mustReconcile(t)
	first := wanted()
	if got := metricsToken(); got != first.Metrics {
		t.Errorf("the token for metrics is %q", got)
	}
	cleared := w.pool(t)
	cleared.Status.LedgerPublicKey = ""
	if err := w.Status().Update(t.Context(), cleared); err != nil {
		t.Fatal(err)
	}
	w.mustReconcile(t)
	second := wanted()
	if got := metricsToken(); got != second.Metrics || second.Metrics == first.Metrics {
		t.Errorf("after a new key the token for metrics is %q", got)
	}
	pod := server("support-a")
	if err := w.store.Create(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	w.reconciler.reader.Stats = tokenReader(second.Operations)
	w.mustReconcile(t)
	if got := w.pool(t).Status.Sessions; got == nil || got.Active != 1 {
		t.Errorf("a server that has the key isn't read: %+v", got)
	}
}

// A ledger key's Secret that is deleted is there again within a minute, with the same key. If the
// operator doesn't know the key any more, the pool says so.
func TestReconcileRestoresTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	now := clocktesting.NewFakePassiveClock(noon)
	use := func() {
		reader := objects.NewKeyReader(w.store)
		w.reconciler.reader.Keys, w.reconciler.secrets.keys, w.reconciler.secrets.check = reader, reader, reader.Check
		w.reconciler.reader.Clock = now
	}
	remove := func() client.ObjectKey {
		t.Helper()
		name := client.ObjectKey{Namespace: "shop", Name: keys.SecretName("support", w.pool(t).Status.LedgerPublicKey)}
		secret := &corev1.Secret{}
		if err := w.store.Get(t.Context(), name, secret); err != nil {
			t.Fatal(err)
		}
		if err := w.store.Delete(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		now.SetTime(now.Now().Add(keyCheck))
		return name
	}
	use()
	w.mustReconcile(t)
	name := remove()
	w.mustReconcile(t)
	again := &corev1.Secret{}
	if err := w.store.Get(t.Context(), name, again); err != nil || !metav1.IsControlledBy(again, w.pool(t)) {
		t.Fatalf("the Secret isn't there again: %v", err)
	}
	if _, err := objects.NewKeyReader(w.store).Secrets(t.Context(), client.ObjectKeyFromObject(w.pool(t)),
		w.pool(t).Status.LedgerPublicKey); err != nil {
		t.Errorf("it has another key: %v", err)
	}
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse {
		t.Errorf("Degraded is %+v", c)
	}
	again.Data[keys.File] = []byte("of somebody else")
	again.Immutable = nil
	if err := w.store.Update(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	now.SetTime(now.Now().Add(keyCheck))
	w.mustReconcile(t)
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonLedgerKeyUnreadable {
		t.Errorf("with another key Degraded is %+v", c)
	}
	remove()
	use() // the operator has restarted
	w.mustReconcile(t)
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonLedgerKeyUnreadable {
		t.Errorf("after a restart Degraded is %+v", c)
	}
}

func TestReconcileLeavesAForeignMetricsToken(t *testing.T) {
	t.Parallel()
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "support-metrics-token", Namespace: "shop"}}
	w := newWorld(t, pool(), theirs)
	if _, err := w.reconcile(t); err == nil || !strings.Contains(err.Error(), "belongs to something else") {
		t.Errorf("error = %v", err)
	}
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonApplyFailed {
		t.Errorf("Degraded is %+v", c)
	}
}

type noKeys struct{}

func (noKeys) Secrets(context.Context, types.NamespacedName, string) (*poolkey.Secrets, error) {
	return nil, errors.New(`secrets "support-ledger-key-1" not found`)
}

func TestReconcileReportsAMissingKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool())
	w.reconciler.reader.Keys, w.reconciler.secrets.keys = noKeys{}, noKeys{}
	w.mustReconcile(t)
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonLedgerKeyUnreadable ||
		!strings.Contains(c.Message, "csenv.dev/replace-ledger-key=public") {
		t.Errorf("Degraded is %+v", c)
	}
}
