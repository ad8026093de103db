package chart

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// all switches everything on.
const all = `{replicas: 2, ui: {enabled: true}, networkPolicy: {enabled: true}, metrics: {rules: {enabled: true},
  serviceMonitor: {enabled: true}, dashboard: {enabled: true}}}`

// The chart and the kustomizations install the same objects.
func TestSameObjects(t *testing.T) {
	for name, tt := range map[string]struct {
		values  string
		folders []string
	}{
		"default":      {"{}", []string{"default"}},
		"two replicas": {"{replicas: 2}", []string{"ha"}},
		"the pages":    {"{ui: {enabled: true}}", []string{"default", "ui"}},
		"everything":   {all, []string{"ha", "ui", "network-policy", "prometheus"}},
		"a pool's monitor": {"{metrics: {podMonitors: [{namespace: default, pool: support}]}}",
			[]string{"default", "prometheus/servers"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := render(t, tt.values)
			for id, object := range got {
				if annotations, _ := at(object, "metadata", "annotations").(map[string]any); strings.HasPrefix(id, "Custom") {
					if annotations["helm.sh/resource-policy"] != "keep" {
						t.Errorf("%s isn't kept", id)
					}
					delete(annotations, "helm.sh/resource-policy")
				}
			}
			if diff := cmp.Diff(kustomizations(t, tt.folders...), got); diff != "" {
				t.Errorf("objects of kustomize (-) and of the chart (+):\n%s", diff)
			}
		})
	}
}

// The rights in each watched namespace are those on the cluster, and nothing has rights on the
// cluster.
func TestNamespaced(t *testing.T) {
	got := render(t, `{watchNamespaces: [a, b], metrics: {secure: false}, crds: {install: false}, userRoles: false,
		secretPolicy: false}`)
	for id := range got {
		if regexp.MustCompile(`^(Cluster|Custom|Validating|Namespace)`).MatchString(id) {
			t.Errorf("it has %s", id)
		}
	}
	want := kustomizations(t, "rbac", "ui")
	check := func(got objects, namespace, name string) {
		t.Helper()
		role := got["Role/"+namespace+"/"+name]
		if diff := cmp.Diff(want["ClusterRole/"+name]["rules"], role["rules"]); diff != "" {
			t.Errorf("%s in namespace %s (-want +got):\n%s", name, namespace, diff)
		}
		binding := got["RoleBinding/"+namespace+"/"+name]
		if diff := cmp.Diff(map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
			binding["roleRef"]); diff != "" {
			t.Errorf("the binding of %s in namespace %s (-want +got):\n%s", name, namespace, diff)
		}
		if diff := cmp.Diff(kustomizations(t, "default", "ui")["ClusterRoleBinding/"+name]["subjects"],
			binding["subjects"]); diff != "" {
			t.Errorf("the subjects of %s in namespace %s (-want +got):\n%s", name, namespace, diff)
		}
	}
	check(got, "a", "csenv-manager")
	check(got, "b", "csenv-manager")
	check(render(t, "{watchNamespaces: [a], ui: {enabled: true}}"), "a", "csenv-ui")
	if _, err := install(t, "{watchNamespaces: [a, b], ui: {enabled: true}}"); err == nil ||
		!strings.Contains(err.Error(), "the pages show one namespace or all") {
		t.Errorf("the pages of two namespaces: %v", err)
	}
}

// A release installs everything in its own namespace.
func TestOtherNamespace(t *testing.T) {
	rendered, err := installIn(t, "elsewhere", all)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(rendered.Manifest) {
		if strings.Contains(line, namespace) {
			t.Errorf("it installs into %s: %s", namespace, line)
		}
	}
}

// Uninstalling deletes pools and runs only if it deletes their kinds.
func TestCleanup(t *testing.T) {
	for values, want := range map[string]int{
		"{}":                                    0,
		"{crds: {keep: false}}":                 4,
		"{crds: {install: false}}":              0,
		"{crds: {install: false, keep: false}}": 0,
		"{crds: {keep: false}, watchNamespaces: [a, b]}": 6,
	} {
		rendered, err := install(t, values)
		if err != nil {
			t.Fatal(err)
		}
		if len(rendered.Hooks) != want {
			t.Errorf("%s: %d hooks, want %d", values, len(rendered.Hooks), want)
		}
		says := strings.Contains(rendered.Info.Notes, "deletes every pool and every run")
		if says != (want > 0) {
			t.Errorf("%s: the notes are:\n%s", values, rendered.Info.Notes)
		}
		for _, hook := range rendered.Hooks {
			if strings.Contains(hook.Manifest, "resource-policy") || len(hook.Events) != 1 || hook.Events[0] != "pre-delete" {
				t.Errorf("%s: %s runs at %v", values, hook.Name, hook.Events)
			}
		}
	}
}

// The values are described by their comments, by the schema and by the page.
func TestValues(t *testing.T) {
	text := read(t, chartFolder+"/values.yaml")
	page := read(t, root+"/docs/install.md")
	schema := map[string]any{}
	if err := yaml.Unmarshal([]byte(read(t, chartFolder+"/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	properties := schema["properties"].(map[string]any)
	delete(properties, "global")  // which Helm adds to every chart
	delete(properties, "enabled") // which a condition of a parent chart reads
	var compare func(path string, values, properties map[string]any)
	compare = func(path string, values, properties map[string]any) {
		if diff := cmp.Diff(slices.Sorted(maps.Keys(values)), slices.Sorted(maps.Keys(properties))); diff != "" {
			t.Errorf("values %s (-) and schema (+):\n%s", path, diff)
		}
		for name, value := range values {
			inner, ok := at(properties, name, "properties").(map[string]any)
			if group, isGroup := value.(map[string]any); ok && isGroup {
				compare(path+name+".", group, inner)
			} else if !strings.Contains(page, "| `"+path+name+"` |") {
				t.Errorf("docs/install.md doesn't describe value %s", path+name)
			}
		}
	}
	compare("", values(t, text), properties)
	for _, undescribed := range regexp.MustCompile(`(?m)\n\n(\w+):`).FindAllStringSubmatch(text, -1) {
		t.Errorf("value %s has no comment", undescribed[1])
	}
}

// Commands and tables of the documentation name values that the chart has.
func TestTheDocumentationNamesValues(t *testing.T) {
	all := values(t, read(t, chartFolder+"/values.yaml"))
	pages, err := filepath.Glob(root + "/docs/*.md")
	guides, guidesErr := filepath.Glob(root + "/docs/guides/*.md")
	if err = errors.Join(err, guidesErr); err != nil {
		t.Fatal(err)
	}
	flag, key := regexp.MustCompile(`--set(?:-json|-string)? '?"?([^\s'"]+)`), regexp.MustCompile(`(?:^|,)([a-zA-Z.]+)=`)
	row, found := regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\| [^|]* \\| [^|]* \\|$"), 0
	check := func(page, path string) {
		keys := make([]any, 0, strings.Count(path, ".")+1)
		for part := range strings.SplitSeq(path, ".") {
			keys = append(keys, part)
		}
		if found++; at(all, keys...) == nil {
			t.Errorf("%s names the value %s, which the chart doesn't have", page, path)
		}
	}
	for _, page := range slices.Concat(pages, guides, []string{root + "/README.md", chartFolder + "/README.md"}) {
		text := read(t, page)
		for _, set := range flag.FindAllStringSubmatch(text, -1) {
			for _, name := range key.FindAllStringSubmatch(set[1], -1) {
				check(page, name[1])
			}
		}
		if filepath.Base(page) == "install.md" {
			for _, name := range row.FindAllStringSubmatch(text, -1) {
				check(page, name[1])
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d names", found)
	}
}

func TestLint(t *testing.T) {
	version, err := common.ParseKubeVersion(kubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"{}", all, "{watchNamespaces: [a]}"} {
		lint := action.NewLint()
		lint.Strict, lint.KubeVersion, lint.Namespace = true, version, namespace
		if result := lint.Run([]string{chartFolder}, values(t, text)); len(result.Errors) > 0 {
			t.Errorf("%s: %v", text, result.Errors)
		}
	}
}

func TestSchemaRefuses(t *testing.T) {
	for values, want := range map[string]string{
		"{replica: 2}":                                   "additional properties 'replica' not allowed",
		"{ui: {enable: true}}":                           "additional properties 'enable' not allowed",
		"{replicas: two}":                                "/replicas",
		"{replicas: -1}":                                 "/replicas",
		"{watchNamespaces: a}":                           "/watchNamespaces",
		"{watchNamespaces: [A]}":                         "/watchNamespaces/0",
		"{image: {repository: ''}}":                      "/image/repository",
		"{image: {pullPolicy: Sometimes}}":               "/image/pullPolicy",
		"{imagePullSecrets: [registry]}":                 "/imagePullSecrets/0",
		"{args: [leader-elect]}":                         "/args/0",
		"{resources: {limit: {cpu: 1}}}":                 "/resources",
		"{metrics: {serviceMonitor: {interval: often}}}": "/metrics/serviceMonitor/interval",
		"{metrics: {podMonitors: [{pool: a}]}}":          "/metrics/podMonitors/0",
		"{env: {A: b}}":                                  "/env",
		"{ui: {service: {type: External}}}":              "/ui/service/type",
	} {
		if _, err := install(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", values, err, want)
		}
	}
}
