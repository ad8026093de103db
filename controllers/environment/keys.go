package environment

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/controllers/objects"
)

// ensureKey creates the key pair with which a pool's servers sign their ledgers, if it has none.
//
// The status stores the public half, from which the Secret's name is derived (keys.SecretName). A
// pass over a stale status creates a second Secret, fails to write the status because of the
// resource version, and deletes that Secret. If the annotation AnnotationReplaceLedgerKey names the
// public key, or somebody clears it in the status, the servers are replaced with a new pair.
func (r *Reconciler) ensureKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv) error {
	if old := env.Status.LedgerPublicKey; old != "" && env.Annotations[v1alpha1.AnnotationReplaceLedgerKey] != old {
		return nil
	}
	public, private, err := newKeyPair(r.entropy)
	if err != nil {
		return err
	}
	secret := keySecret(env, public, private)
	if err := controllerutil.SetControllerReference(env, secret, r.client.Scheme()); err != nil {
		return fmt.Errorf("owning the ledger key: %w", err)
	}
	if err := r.client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating the ledger key's Secret: %w", err)
	}
	updated := env.DeepCopy()
	updated.Status.LedgerPublicKey = public
	if err := r.client.Status().Update(ctx, updated); err != nil {
		return r.discard(ctx, secret, fmt.Errorf("writing the ledger's public key to status: %w", err))
	}
	updated.DeepCopyInto(env)
	return nil
}

// replaceKeyCommand creates a new key with the rights of the pool's editors.
func replaceKeyCommand(env *v1alpha1.CustomerSupportEnv) string {
	return fmt.Sprintf("kubectl annotate customersupportenv -n %s %s --overwrite %s=%s", env.Namespace, env.Name,
		v1alpha1.AnnotationReplaceLedgerKey, env.Status.LedgerPublicKey)
}

// withoutKey ends a pass that couldn't create the pool's first key. The status shows why, because
// users can't read the operator's log.
func (r *Reconciler) withoutKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv, m *memory,
	cause error) (ctrl.Result, error) {
	if result, err := objects.IgnoreExpected(cause); err == nil {
		return result, nil
	}
	d := decide(snapshot{env: env, image: cmp.Or(env.Spec.Image, r.image), now: r.clock.Now()}, m)
	d.applyErr = cause
	return ctrl.Result{}, errors.Join(cause, r.writeStatus(ctx, env, computeStatus(d), m))
}

// discard deletes the Secret if the error proves that the public half wasn't written. After another
// error it may be in use.
func (r *Reconciler) discard(ctx context.Context, secret *corev1.Secret, cause error) error {
	if !apierrors.IsConflict(cause) && !apierrors.IsNotFound(cause) {
		return cause
	}
	if err := r.client.Delete(ctx, secret); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing an unused ledger key: %w", err)
	}
	return cause
}

// newKeyPair returns an Ed25519 pair: the public half in base64, the private half as PKCS#8 in PEM.
func newKeyPair(entropy io.Reader) (public string, private []byte, err error) {
	pub, priv, err := ed25519.GenerateKey(entropy)
	if err != nil {
		return "", nil, fmt.Errorf("generating the ledger key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		return "", nil, fmt.Errorf("encoding the ledger key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(pub), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func keySecret(env *v1alpha1.CustomerSupportEnv, public string, private []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: keys.SecretName(env.Name, public), Namespace: env.Namespace,
			Labels: poolLabels(env.Name)},
		Immutable: new(true),
		Type:      corev1.SecretTypeOpaque,
		Data:      map[string][]byte{keys.File: private},
	}
}

// metricsTokenKey is the key of the token in a pool's Secret for Prometheus.
const metricsTokenKey = "token"

// metricsTokenCheck is the time between two looks at that Secret, which no cache contains.
const metricsTokenCheck = 10 * time.Minute

func metricsTokenName(env string) string { return env + "-metrics-token" }

// keepMetricsToken keeps the Secret from which Prometheus reads the token for /metrics.
func (r *Reconciler) keepMetricsToken(ctx context.Context, s snapshot, m *memory) error {
	public := s.env.Status.LedgerPublicKey
	known := m.metricsKey == public && s.now.Sub(m.metricsToken) < metricsTokenCheck
	if known || s.keyErr != nil { // the conditions report an unreadable key
		return nil //nolint:nilerr // without the key there is no token
	}
	secrets, err := r.keys.Secrets(ctx, client.ObjectKeyFromObject(s.env), public)
	if err != nil {
		return err
	}
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: metricsTokenName(s.env.Name), Namespace: s.env.Namespace,
			Labels: poolLabels(s.env.Name)},
		Immutable: new(true),
		Data:      map[string][]byte{metricsTokenKey: []byte(secrets.Metrics)},
	}
	if err := controllerutil.SetControllerReference(s.env, wanted, r.client.Scheme()); err != nil {
		return fmt.Errorf("owning the token for metrics: %w", err)
	}
	if err := r.replaceSecret(ctx, s.env, wanted); err != nil {
		return fmt.Errorf("keeping the token for metrics in Secret %s: %w", wanted.Name, err)
	}
	m.metricsToken, m.metricsKey = s.now, public
	return nil
}

// replaceSecret creates a Secret, in place of one of the pool's that has other data, or of one of
// an earlier pool of its name.
func (r *Reconciler) replaceSecret(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	wanted *corev1.Secret) error {
	old := &corev1.Secret{}
	err := r.live.Get(ctx, client.ObjectKeyFromObject(wanted), old)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !metav1.IsControlledBy(old, env) && !isPredecessors(env, old):
		return errors.New("it belongs to something else: delete it, or create this CustomerSupportEnv with another " +
			"name")
	case metav1.IsControlledBy(old, env) && maps.EqualFunc(old.Data, wanted.Data, bytes.Equal):
		return nil
	default:
		if err := r.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return r.client.Create(ctx, wanted)
}
