// Package chart tests the Helm chart with Helm's library. It is a module of its own, because Helm
// has many dependencies. `go tool helm` runs Helm.
package chart

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigsyaml "sigs.k8s.io/yaml"
)

// root is the repository, chartFolder the chart, both seen from this folder, and namespace is where
// config installs the operator.
const (
	root        = "../.."
	chartFolder = root + "/charts/csenv"
	namespace   = "csenv-system"
)

// kubeVersion is what the charts are rendered for: Helm's default is a release of 2020.
const kubeVersion = "v1.37.0"

// objects are Kubernetes objects by KIND/NAME, or KIND/NAMESPACE/NAME if it is another namespace
// than that of the release.
type objects map[string]map[string]any

func decode(t *testing.T, text string) objects {
	t.Helper()
	all := objects{}
	for decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 1<<12); ; {
		object := map[string]any{}
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%v in:\n%s", err, text)
		}
		if len(object) == 0 {
			continue
		}
		metadata := at(object, "metadata").(map[string]any)
		id := object["kind"].(string) + "/"
		if other, _ := metadata["namespace"].(string); other != "" && other != namespace {
			id += other + "/"
		}
		id += metadata["name"].(string)
		if all[id] != nil {
			t.Errorf("there are two %s", id)
		}
		all[id] = object
	}
}

// at returns the value at a path, nil if there is none.
func at(object any, path ...any) any {
	for _, key := range path {
		switch of := object.(type) {
		case map[string]any:
			object = of[key.(string)]
		case []any:
			if key.(int) >= len(of) {
				return nil
			}
			object = of[key.(int)]
		default:
			return nil
		}
	}
	return object
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := sigsyaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// install renders the chart as `helm template` does.
func install(t *testing.T, text string) (*release.Release, error) {
	t.Helper()
	return installIn(t, namespace, text)
}

func installIn(t *testing.T, namespace, text string) (*release.Release, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	helm := action.NewInstall(action.NewConfiguration())
	helm.DryRunStrategy, helm.KubeVersion = action.DryRunClient, version
	helm.ReleaseName, helm.Namespace = "csenv", namespace
	rendered, err := helm.RunWithContext(t.Context(), chart, values(t, text))
	if err != nil {
		return nil, err
	}
	return rendered.(*release.Release), nil
}

// render returns the release's objects, without those of hooks.
func render(t *testing.T, values string) objects {
	t.Helper()
	rendered, err := install(t, values)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, rendered.Manifest)
}

// kustomizations returns the objects of folders of config, without the namespace.
func kustomizations(t *testing.T, folders ...string) objects {
	t.Helper()
	var text bytes.Buffer
	for _, folder := range folders {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(),
			root+"/config/"+folder)
		if err != nil {
			t.Fatal(err)
		}
		yaml, err := built.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString("---\n" + string(yaml))
	}
	all := decode(t, text.String())
	delete(all, "Namespace/"+namespace)
	return all
}
