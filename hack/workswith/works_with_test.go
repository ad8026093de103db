// Package workswith_test applies examples/works-with to a real API server, with the CRDs of the
// tools.
package workswith_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/testkit/apiserver"
)

// tools are the modules with the CRDs that the examples use. The sum is that of go.sum, so that a
// version always has the same CRDs.
var tools = []struct{ module, version, sum, folder, crds string }{
	{"sigs.k8s.io/kueue", "v0.16.1", "h1:67H0gT8VvY3kJKbI6XI09OyJ1UJ0eJ8mbOw0ITHJVpU=",
		"config/components/crd/bases", "kueue.x-k8s.io_*queues.yaml kueue.x-k8s.io_resourceflavors.yaml"},
	{"github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=",
		"config/crd/bases", "keda.sh_scaledobjects.yaml"},
	{"sigs.k8s.io/gateway-api", "v1.6.3", "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=",
		"config/crd/standard", "gateway.networking.k8s.io_gateways.yaml gateway.networking.k8s.io_httproutes.yaml"},
	{"github.com/prometheus-operator/prometheus-operator", "v0.85.0", "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
		"example/prometheus-operator-crd", "monitoring.coreos.com_*monitors.yaml monitoring.coreos.com_*rules.yaml"},
}

// cluster is an API server on which the examples are applied.
type cluster struct {
	config *rest.Config
	client client.Client
}

// TestMain makes the folder of the examples the current one.
func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.Join("..", "..", "examples", "works-with")); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestAgainstAPIServer(t *testing.T) {
	server := apiserver.StartWithControllers(t,
		[]string{"horizontal-pod-autoscaler-controller", "validatingadmissionpolicy-status-controller"},
		"--horizontal-pod-autoscaler-sync-period=1s")
	if err := v1alpha1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"argocd", "csenv-system", "gateways", "monitoring"} {
		if err := c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	on := cluster{server.Config, c}
	t.Run("schemas", on.schemas)
	t.Run("scaling", on.scaling)
	t.Run("actions", on.actions)
	// The last one, because the policies refuse what the others create.
	t.Run("policies", on.policies)
}

// schemas applies every manifest as `kubectl apply --server-side --dry-run=server` does, which
// refuses unknown fields.
func (c cluster) schemas(t *testing.T) {
	for _, tool := range tools {
		if _, err := envtest.InstallCRDs(c.config, envtest.CRDInstallOptions{Paths: crds(t, tool.module, tool.version,
			tool.sum, tool.folder, tool.crds), ErrorIfPathMissing: true}); err != nil {
			t.Fatal(err)
		}
	}
	files := []string{"../../config/prometheus/rules.yaml", "../../config/prometheus/service_monitor.yaml",
		"../../config/prometheus/servers/pod_monitor.yaml"}
	for _, file := range append(files, manifests(t)...) {
		t.Run(strings.TrimLeft(file, "./"), func(t *testing.T) {
			for _, object := range read(t, file) {
				if object.GetNamespace() == "" && strings.HasPrefix(object.GetAPIVersion(), "monitoring.coreos.com/") {
					object.SetNamespace("csenv-system") // which config/prometheus/kustomization.yaml sets
				}
				if err := c.dryRun(t, object); err != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
				if err := unstructured.SetNestedField(object.Object, "x", "spec", "nosuchfield"); err != nil {
					t.Fatal(err)
				}
				if err := c.dryRun(t, object); err == nil {
					t.Errorf("%s %s is accepted with an unknown field", object.GetKind(), object.GetName())
				}
			}
		})
	}
}

func (c cluster) dryRun(t *testing.T, object *unstructured.Unstructured) error {
	t.Helper()
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return c.client.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.ApplyPatchType, data),
		client.DryRunAll, client.FieldOwner("test"), client.ForceOwnership,
		client.FieldValidation(metav1.FieldValidationStrict))
}

// create creates the objects of a file.
func (c cluster) create(t *testing.T, file string) {
	t.Helper()
	for _, object := range read(t, file) {
		if err := c.client.Create(t.Context(), object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// crds downloads a module and returns the paths of some of its files.
func crds(t *testing.T, module, version, sum, folder, patterns string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module+"@"+version).Output()
	var downloaded struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &downloaded); jsonErr != nil || err != nil || downloaded.Error != "" {
		t.Fatalf("downloading %s %s: %v %s", module, version, err, downloaded.Error)
	}
	if downloaded.Sum != sum {
		t.Fatalf("%s %s has the sum %s, want %s", module, version, downloaded.Sum, sum)
	}
	var paths []string
	for pattern := range strings.FieldsSeq(patterns) {
		found, err := filepath.Glob(filepath.Join(downloaded.Dir, folder, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s has no file %s/%s: %v", module, folder, pattern, err)
		}
		paths = append(paths, found...)
	}
	return paths
}

// manifests are the files of the examples.
func manifests(t *testing.T) []string {
	t.Helper()
	var files []string
	if err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".yaml" {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}

// read returns the objects of a file.
func read(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 1<<12); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		objects = append(objects, object)
	}
}

// The README says which versions are tested.
func TestVersions(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if !strings.Contains(string(data), tool.version) {
			t.Errorf("README.md doesn't name version %s of %s", tool.version, tool.module)
		}
	}
}
