package keys

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

func secretOf(t *testing.T, name string, key ed25519.PrivateKey) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Data: map[string][]byte{File: poolkey.Encode(key)}}
}

func TestSecrets(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := score.FormatPublicKey(key.Public().(ed25519.PublicKey))
	pool := types.NamespacedName{Namespace: "shop", Name: "support"}
	secrets := map[string]*corev1.Secret{}
	for _, named := range []string{public, "another"} {
		secrets[SecretName("support", named)] = secretOf(t, SecretName("support", named), key)
	}
	reads := 0
	reader := NewReader(func(_ context.Context, name types.NamespacedName) (*corev1.Secret, error) {
		reads++
		if found := secrets[name.Name]; found != nil && name.Namespace == found.Namespace {
			return found, nil
		}
		return nil, errors.New("not found")
	})
	want, err := poolkey.DeriveSecrets(key)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := reader.Secrets(t.Context(), pool, public)
		if err != nil || got.Operations != want.Operations {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if reads != 1 {
		t.Errorf("%d reads of a Secret that never changes", reads)
	}
	other := types.NamespacedName{Namespace: "team", Name: "support"}
	if got, err := reader.Secrets(t.Context(), other, public); err == nil {
		t.Errorf("a pool whose status has another one's key gets %+v", got)
	}
	for public, want := range map[string]string{"": "no ledger key yet", "none": "not found",
		"another": "not the one of status.ledgerPublicKey"} {
		if _, err := reader.Secrets(t.Context(), pool, public); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("public key %q: %v, want %q", public, err, want)
		}
	}
}
