package environment

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/csenv/csenv/api/v1alpha1"
)

// keyFile is the Secret's key of the private key, PKCS#8 in PEM.
const keyFile = "key.pem"

// ensureKey creates the key pair with which a pool's servers sign their ledgers, if it has none.
//
// The operator may create and delete Secrets, but not read them. So only the status stores the
// public half, and the Secret's name is derived from it (keySecretName). A pass over a stale status
// creates a second Secret, fails to write the status because of the resource version, and deletes
// that Secret. If a user clears status.ledgerPublicKey, the servers are replaced with a new pair.
func (r *Reconciler) ensureKey(ctx context.Context, env *v1alpha1.CustomerSupportEnv) error {
	if env.Status.LedgerPublicKey != "" {
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
	env.Status.LedgerPublicKey = public
	if err := r.client.Status().Update(ctx, env); err != nil {
		return r.discard(ctx, secret, fmt.Errorf("writing the ledger's public key to status: %w", err))
	}
	return nil
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
		ObjectMeta: metav1.ObjectMeta{Name: keySecretName(env.Name, public), Namespace: env.Namespace,
			Labels: poolLabels(env.Name)},
		Immutable: new(true),
		Type:      corev1.SecretTypeOpaque,
		Data:      map[string][]byte{keyFile: private},
	}
}

// keySecretName returns the name of a public key's Secret, which has 40 bits of the key's hash.
func keySecretName(env, public string) string {
	sum := sha256.Sum256([]byte(public))
	return env + "-ledger-key-" + hex.EncodeToString(sum[:5])
}
