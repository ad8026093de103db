// Package policy_test tests the admission policies with a real API server.
package policy_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/controllers/testkit/apiserver"
)

const refusal = "may create and delete only Secrets that a pool or a run controls"

func secret(name string, owners ...metav1.OwnerReference) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners}}
}

func ownedBy(version, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: "x", UID: types.UID("1"), Controller: new(true)}
}

// apply creates the objects of a file.
func apply(t *testing.T, c client.Client, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 1<<12); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// The operator, which has rights on all Secrets, can create and delete only its own.
func TestTheOperatorsSecrets(t *testing.T) {
	apiserver.RequireBinaries(t)
	config := apiserver.Start(t).Config
	as := func(user string) client.Client {
		own := rest.CopyConfig(config)
		if user != "" {
			own.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		}
		c, err := client.New(own, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	admin, operator := as(""), as("system:serviceaccount:csenv-system:csenv-manager")
	apply(t, admin, "secrets.yaml")
	if err := admin.Create(t.Context(), secret("foreign")); err != nil {
		t.Fatal(err)
	}
	refused := func(err error) bool { return err != nil && strings.Contains(err.Error(), refusal) }
	// The API server follows its policies with a delay.
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			return refused(operator.Create(ctx, secret("probe"), client.DryRunAll)), nil
		}); err != nil {
		t.Fatal("the policy has no effect")
	}
	for name, owner := range map[string]metav1.OwnerReference{
		"of-a-pool": ownedBy("csenv.dev/v1alpha1", "CustomerSupportEnv"),
		"of-a-run":  ownedBy("csenv.dev/v1alpha1", "EvaluationRun"),
	} {
		if err := operator.Create(t.Context(), secret(name, owner)); err != nil {
			t.Errorf("creating one %s: %v", name, err)
		}
		if err := operator.Delete(t.Context(), secret(name)); err != nil {
			t.Errorf("deleting one %s: %v", name, err)
		}
	}
	if err := operator.Create(t.Context(), secret("other", ownedBy("apps/v1", "Deployment"))); !refused(err) {
		t.Errorf("creating one of a Deployment: %v", err)
	}
	if err := operator.Delete(t.Context(), secret("foreign")); !refused(err) {
		t.Errorf("deleting a foreign one: %v", err)
	}
	if err := as("jane").Delete(t.Context(), secret("foreign")); err != nil {
		t.Errorf("another user: %v", err)
	}
}
