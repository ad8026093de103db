package environment

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/observe"
	"github.com/csenv/csenv/controllers/environment/snapshot"
	"github.com/csenv/csenv/controllers/keys"
	"github.com/csenv/csenv/envserver/poolkey"
)

// keyKeeper keeps the Secrets of pools.
type keyKeeper struct {
	client  client.Client
	live    client.Reader
	keys    keys.Source
	entropy io.Reader // of ledger keys
	// check is keys.Reader.Check.
	check func(ctx context.Context, pool types.NamespacedName, public string) (ed25519.PrivateKey, error)
}

// keyCheck is the interval at which the Secret of a ledger key is read. The operator may neither
// list nor watch Secrets.
const keyCheck = time.Minute

// restoreKey creates the Secret of the ledger key again if it was deleted while the operator knows
// the key. Servers that run have the key; others couldn't start.
func (k keyKeeper) restoreKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv, m *memory, now time.Time) error {
	public := env.Status.LedgerPublicKey
	if public == "" || now.Sub(m.keyChecked) < keyCheck {
		return nil
	}
	lost, err := k.check(ctx, client.ObjectKeyFromObject(env), public)
	if err != nil {
		return err
	}
	m.keyChecked = now
	if lost == nil {
		return nil
	}
	logf.FromContext(ctx).Info("Creating the Secret of the ledger key again, which was deleted")
	return k.createKey(ctx, env, children.BuildKeySecret(env, public, poolkey.Encode(lost)))
}

// createKey creates the Secret of a ledger key.
func (k keyKeeper) createKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv, secret *corev1.Secret) error {
	if err := controllerutil.SetControllerReference(env, secret, k.client.Scheme()); err != nil {
		return fmt.Errorf("owning the ledger key: %w", err)
	}
	if err := k.client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating the ledger key's Secret: %w", err)
	}
	return nil
}

// ensureKey creates the key pair with which a pool's servers sign their ledgers, if it has none.
//
// The status stores the public half, from which the Secret's name is derived (keys.SecretName). A
// pass over a stale status creates a second Secret, fails to write the status because of the
// resource version, and deletes that Secret. If it isn't known whether the status was written, the
// next pass uses the same pair, so that none is left over. If the annotation
// AnnotationReplaceLedgerKey names the public key, or somebody clears it in the status, the servers
// are replaced with a new pair.
func (k keyKeeper) ensureKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv, m *memory) error {
	if old := env.Status.LedgerPublicKey; old != "" && env.Annotations[v1alpha1.AnnotationReplaceLedgerKey] != old {
		m.pair = nil
		return nil
	}
	known := m.pair != nil
	if !known {
		public, private, err := newKeyPair(k.entropy)
		if err != nil {
			return err
		}
		m.pair = &keyPair{public, private}
	}
	public := m.pair.public
	secret := children.BuildKeySecret(env, public, m.pair.private)
	if err := k.createKey(ctx, env, secret); err != nil && (!known || !apierrors.IsAlreadyExists(err)) {
		return err
	}
	updated := env.DeepCopy()
	updated.Status.LedgerPublicKey = public
	if err := k.client.Status().Update(ctx, updated); err != nil {
		err = fmt.Errorf("writing the ledger's public key to status: %w", err)
		if known || !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			return err // the pair may be in the status
		}
		m.pair = nil
		if gone := k.client.Delete(ctx, secret); client.IgnoreNotFound(gone) != nil {
			return fmt.Errorf("removing an unused ledger key: %w", gone)
		}
		return err
	}
	m.pair = nil
	updated.DeepCopyInto(env)
	return nil
}

// keyPair is a ledger key: the public half in base64, the private half as PKCS#8 in PEM.
type keyPair struct {
	public  string
	private []byte
}

// newKeyPair returns an Ed25519 pair: the public half in base64, the private half as PKCS#8 in PEM.
func newKeyPair(entropy io.Reader) (public string, private []byte, err error) {
	pub, priv, err := ed25519.GenerateKey(entropy)
	if err != nil {
		return "", nil, fmt.Errorf("generating the ledger key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(pub), poolkey.Encode(priv), nil
}

// metricsTokenCheck is the interval at which the Secret of the token for metrics is read, which no
// cache contains.
const metricsTokenCheck = 10 * time.Minute

// keepMetricsToken keeps the Secret from which Prometheus reads the token for /metrics.
func (k keyKeeper) keepMetricsToken(ctx context.Context, s snapshot.Snapshot, m *memory) error {
	public := s.Env.Status.LedgerPublicKey
	known := m.tokenKey == public && s.Now.Sub(m.token) < metricsTokenCheck
	if known || s.KeyErr != nil { // the conditions report an unreadable key
		return nil //nolint:nilerr // without the key there is no token
	}
	secrets, err := k.keys.Secrets(ctx, client.ObjectKeyFromObject(s.Env), public)
	if err != nil {
		return err
	}
	wanted := children.BuildMetricsToken(s.Env, secrets.Metrics)
	if err := controllerutil.SetControllerReference(s.Env, wanted, k.client.Scheme()); err != nil {
		return fmt.Errorf("owning the token for metrics: %w", err)
	}
	if err := k.replaceSecret(ctx, s.Env, wanted); err != nil {
		return fmt.Errorf("keeping the token for metrics in Secret %s: %w", wanted.Name, err)
	}
	m.token, m.tokenKey = s.Now, public
	return nil
}

// replaceSecret creates a Secret, in place of one of the pool's that has other data, or of one of
// an earlier pool of its name.
func (k keyKeeper) replaceSecret(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	wanted *corev1.Secret) error {
	old := &corev1.Secret{}
	err := k.live.Get(ctx, client.ObjectKeyFromObject(wanted), old)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return err
	case !metav1.IsControlledBy(old, env) && !observe.IsPredecessors(env, old):
		return errors.New("it belongs to something else: delete it, or create this CustomerSupportEnv with another " +
			"name")
	case metav1.IsControlledBy(old, env) && maps.EqualFunc(old.Data, wanted.Data, bytes.Equal):
		return nil
	default:
		if err := k.client.Delete(ctx, old, client.Preconditions{UID: &old.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return k.client.Create(ctx, wanted)
}
