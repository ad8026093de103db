// Package ui_test applies the manifests of the web pages to a real API server.
package ui_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/ui"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
)

const namespace = "csenv-system"

// objects reads the objects of a file.
func objects(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 1<<12); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
}

// resources are the files that the kustomization lists.
func resources(t *testing.T) []string {
	t.Helper()
	listed, found, err := unstructured.NestedStringSlice(objects(t, "kustomization.yaml")[0].Object, "resources")
	if err != nil || !found {
		t.Fatal("the kustomization lists no resources", err)
	}
	return listed
}

// The API server accepts the objects strictly and the pod under the restricted security standard,
// and the ServiceAccount may read the two kinds and nothing else.
func TestManifests(t *testing.T) {
	apiserver.RequireBinaries(t)
	config := apiserver.StartWithCRDs(t).Config
	admin, err := client.New(config, client.Options{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects(t, "../manager/namespace.yaml") {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range resources(t) {
		for _, object := range objects(t, file) {
			if mapping, err := admin.RESTMapper().RESTMapping(object.GroupVersionKind().GroupKind()); err != nil {
				t.Fatal(err)
			} else if mapping.Scope.Name() == "namespace" {
				object.SetNamespace(namespace)
			}
			if err := admin.Create(t.Context(), object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
		}
	}
	deployed := &appsv1.Deployment{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "csenv-ui"}, deployed); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ui"},
		Spec: deployed.Spec.Template.Spec}
	if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Error("the pod is refused: ", err)
	}
	commandLine(t, deployed.Spec.Template.Spec.Containers[0])
	rights(t, config)
}

// commandLine checks that the program accepts its arguments and serves at the declared port.
func commandLine(t *testing.T, c corev1.Container) {
	t.Helper()
	flags := ui.NewUICommand().Flags()
	if err := flags.Parse(c.Args); err != nil {
		t.Error(err)
	}
	if listen, _ := flags.GetString("listen"); listen != ":8400" || c.Ports[0].ContainerPort != 8400 {
		t.Errorf("the program serves at %s, the port is %d", listen, c.Ports[0].ContainerPort)
	}
	if !slices.Equal(c.Command, []string{"/csenv", "ui"}) || !*c.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("command %v, security context %+v", c.Command, c.SecurityContext)
	}
}

func rights(t *testing.T, config *rest.Config) {
	t.Helper()
	own := rest.CopyConfig(config)
	own.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + namespace + ":csenv-ui",
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	account, err := client.New(own, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		group, resource, verb string
		want                  bool
	}{
		{v1alpha1.GroupVersion.Group, "customersupportenvs", "watch", true},
		{v1alpha1.GroupVersion.Group, "evaluationruns", "list", true},
		{v1alpha1.GroupVersion.Group, "evaluationruns", "update", false},
		{v1alpha1.GroupVersion.Group, "evaluationruns", "create", false},
		{"", "secrets", "get", false}, {"", "configmaps", "get", false}, {"", "pods", "list", false},
		{"", "events", "list", false},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: tt.group, Resource: tt.resource,
				Verb: tt.verb}}}
		if err := account.Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != tt.want {
			t.Errorf("%s %s: allowed %v, want %v", tt.verb, tt.resource, review.Status.Allowed, tt.want)
		}
	}
}
