package environment

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/testkit/testpool"
)

func TestNewKeyPair(t *testing.T) {
	t.Parallel()
	public, private, err := newKeyPair(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, rest := pem.Decode(private)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		t.Fatalf("the private half is not the PEM of one key: %q", private)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	signer, ok := key.(ed25519.PrivateKey)
	if !ok {
		t.Fatalf("the private half is a %T", key)
	}
	verifier, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		t.Fatal(err)
	}
	if !ed25519.Verify(verifier, []byte("ledger"), ed25519.Sign(signer, []byte("ledger"))) {
		t.Error("the public half doesn't verify what the private half signs")
	}
	if len(public) > 64 {
		t.Errorf("the public half is %d characters long, more than the status takes", len(public))
	}
}

type noEntropy struct{}

func (noEntropy) Read([]byte) (int, error) { return 0, errors.New("dry") }

func TestNewKeyPairWithoutEntropy(t *testing.T) {
	t.Parallel()
	_, _, err := newKeyPair(noEntropy{})
	if err == nil || !strings.Contains(err.Error(), "generating the ledger key: dry") {
		t.Errorf("error = %v", err)
	}
}

func TestKeySecret(t *testing.T) {
	t.Parallel()
	env := pool()
	secret := children.BuildKeySecret(env, "public", []byte("pem"))
	if secret.Immutable == nil || !*secret.Immutable {
		t.Error("the Secret isn't immutable")
	}
	template := children.BuildPodTemplate(children.Pool{Env: env, Image: testpool.Image}, "")
	if got := template.Spec.Volumes[0].Secret.SecretName; got != secret.Name {
		t.Errorf("servers mount %s, want the Secret %s", got, secret.Name)
	}
	if other := keys.SecretName(env.Name, "other"); other == secret.Name {
		t.Error("two key pairs share a Secret's name")
	}
}

// Before the first key there are no servers, and the status shows why.
func TestReconcileReportsARefusedKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	w.faults.create = apierrors.NewForbidden(corev1.Resource("secrets"), "support", errors.New("exceeded quota: small"))
	if _, err := w.reconcile(t); err == nil {
		t.Fatal("no error: the pass isn't repeated")
	}
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Reason != v1alpha1.ReasonApplyFailed ||
		!strings.Contains(c.Message, "creating the ledger key's Secret") ||
		!strings.Contains(c.Message, "exceeded quota: small") {
		t.Errorf("Degraded is %+v", c)
	}
	if c := w.condition(t, v1alpha1.ConditionAvailable); c.Status != metav1.ConditionFalse ||
		c.Reason != v1alpha1.ReasonNoServerReady {
		t.Errorf("Available is %+v", c)
	}
	w.faults = faults{}
	w.mustReconcile(t)
	if c := w.condition(t, v1alpha1.ConditionDegraded); c.Status != metav1.ConditionFalse {
		t.Errorf("afterwards Degraded is %+v", c)
	}
}

// A pool's editor, who can't write its status, replaces the key once with an annotation.
func TestReconcileReplacesTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pool(keyless))
	w.mustReconcile(t)
	old := w.pool(t).Status.LedgerPublicKey
	annotated := w.pool(t)
	annotated.Annotations = map[string]string{v1alpha1.AnnotationReplaceLedgerKey: old}
	editor := w.store // the writes of users aren't counted
	if err := editor.Update(t.Context(), annotated); err != nil {
		t.Fatal(err)
	}
	w.faults.create = errors.New("exceeded quota: small")
	if _, err := w.reconcile(t); err == nil || w.pool(t).Status.LedgerPublicKey != old {
		t.Errorf("a refused key: %v", err)
	}
	if c := w.condition(t, v1alpha1.ConditionDegraded); !strings.Contains(c.Message, "exceeded quota: small") {
		t.Errorf("Degraded is %+v", c)
	}
	w.faults = faults{}
	w.mustReconcile(t)
	replaced := w.pool(t).Status.LedgerPublicKey
	w.mustReconcile(t)
	if again := w.pool(t).Status.LedgerPublicKey; replaced == old || again != replaced {
		t.Errorf("the key %s was replaced by %s, and then by %s", old, replaced, again)
	}
}

// A key whose public half may or may not have been written is used again, so that no other Secret
// is left over, whichever of both has happened.
func TestReconcileLeavesNoKeyOver(t *testing.T) {
	t.Parallel()
	timeout := apierrors.NewTimeoutError("the server was unable to return a response in time", 1)
	for name, lost := range map[string]faults{"not written": {status: timeout}, "written": {statusAfterSuccess: timeout}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, pool(keyless))
			w.faults = lost
			if _, err := w.reconcile(t); err == nil {
				t.Fatal("no error: the pass isn't repeated")
			}
			w.faults = faults{}
			w.mustReconcile(t)
			list := &corev1.SecretList{}
			if err := w.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range list.Items {
				if strings.Contains(list.Items[i].Name, "-ledger-key-") {
					names = append(names, list.Items[i].Name)
				}
			}
			if want := keys.SecretName("support", w.pool(t).Status.LedgerPublicKey); len(names) != 1 || names[0] != want {
				t.Errorf("there are the keys %v, and the pool uses %s", names, want)
			}
		})
	}
}
