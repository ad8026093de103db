package manifest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/controllers/testkit/apiserver"
)

// aRun returns a minimal run, with additional lines in its spec.
func aRun(more ...string) string {
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: EvaluationRun, metadata: {name: r}, spec: "+
		"{environmentRef: {name: support}, %s}}", strings.Join(more, ", "))
}

func aPool(spec string) string {
	return fmt.Sprintf("{apiVersion: csenv.dev/v1alpha1, kind: CustomerSupportEnv, metadata: {name: p}, spec: {%s}}",
		spec)
}

const (
	oracle = "agent: {type: Builtin, builtin: {policy: Oracle}}"
	openAI = "agent: {type: OpenAI, openAI: {baseURL: 'http://localhost:11434/v1', model: m}}"
	task   = "tasks: [{name: ticket-resolve}]"
)

func read(t *testing.T, text string) (*Objects, error) {
	t.Helper()
	return Read(t.Context(), []string{Stdin}, strings.NewReader(text))
}

// Read and the API server give the same defaults, or both refuse a manifest.
func TestAgreesWithTheAPIServer(t *testing.T) {
	api, err := client.New(apiserver.StartWithCRDs(t).Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api = client.NewNamespacedClient(api, "default")
	for name, text := range map[string]string{
		"a small run":   aRun(oracle, task),
		"a model":       aRun(openAI, task),
		"an HTTP agent": aRun("agent: {type: HTTP, http: {url: 'http://localhost/'}}", task),
		"a container":   aRun("agent: {type: Container, container: {image: a}}", task),
		"trials and retries": aRun(oracle, "tasks: [{name: a, trials: 4, scenarios: {ids: [B01]}}, {name: b}]",
			"retries: {episodeAttempts: 1}"),
		"a null":   aRun(oracle, task, "seed: null", "concurrency: null"),
		"no agent": aRun(task),
		"two agents": aRun("agent: {type: Builtin, builtin: {policy: Oracle}, http: {url: "+
			"'http://localhost/'}}", task),
		"a task twice":          aRun(oracle, "tasks: [{name: a}, {name: a}]"),
		"no tasks":              aRun(oracle, "tasks: []"),
		"a bare null policy":    aRun("agent: {type: Builtin, builtin: {policy: Null}}", task),
		"too high a score":      aRun(oracle, task, "passScore: 1.5"),
		"a string for a score":  aRun(oracle, task, "passScore: '0.8'"),
		"six digits":            aRun(oracle, task, "passScore: 0.000025"),
		"seven digits":          aRun(oracle, task, "passScore: 0.1234567"),
		"a fifth digit":         aRun(strings.Replace(openAI, "model:", "temperature: 0.00001, model:", 1), task),
		"a whole score":         aRun(oracle, task, "thresholds: [{metric: passRate, min: 1}]"),
		"a fraction of a trial": aRun(oracle, "tasks: [{name: a, trials: 1.5}]"),
		"results two ways":      aRun(oracle, task, "results: {url: 's3://b', persistentVolumeClaim: {claimName: c}}"),
		"a small pool":          aPool(""),
		"autoscaling":           aPool("autoscaling: {maxReplicas: 3}"),
		"autoscaling upwards":   aPool("autoscaling: {minReplicas: 4, maxReplicas: 3}"),
		"a judge":               aPool("judge: {type: LLM, llm: {baseURL: 'http://localhost:1/v1', model: m}}"),
		"a judge without model": aPool("judge: {type: LLM}"),
		"a judge of workflows": aPool("environment: Workflow, judge: {type: LLM, llm: {baseURL: " +
			"'http://localhost:1/v1', model: m}}"),
	} {
		t.Run(name, func(t *testing.T) {
			served := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(text), &served.Object); err != nil {
				t.Fatal(err)
			}
			refused := api.Create(t.Context(), served)
			objects, err := read(t, text)
			if (refused == nil) != (err == nil) {
				t.Fatalf("the API server returns %v, Read returns %v", refused, err)
			}
			if err != nil {
				return
			}
			if err := api.Delete(t.Context(), served); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(served.Object["spec"], spec(t, objects)); diff != "" {
				t.Errorf("spec (-API server +Read)\n%s", diff)
			}
		})
	}
}

// spec returns the spec of the only object, as the API server would store it.
func spec(t *testing.T, objects *Objects) any {
	t.Helper()
	var typed any
	if len(objects.Runs) == 1 {
		typed = objects.Runs[0]
	} else {
		typed = objects.Pools[0]
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		t.Fatal(err)
	}
	return object["spec"]
}

func TestRefusals(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"a misspelt field": {aRun(oracle, task, "paralelism: 4"),
			[]string{"EvaluationRun r: unknown field spec.paralelism: did you mean parallelism?"}},
		"one inside a list": {aRun(oracle, "tasks: [{name: a, trails: 4}]"),
			[]string{"spec.tasks[0].trails: did you mean trials?"}},
		"one of metadata": {strings.Replace(aRun(oracle, task), "{name: r}", "{nam: r}", 1),
			[]string{"metadata.nam"}},
		"a strange field": {aRun(oracle, task, "frobnicate: yes"), []string{"spec.frobnicate", "kubectl explain"}},
		"several at once": {aRun(oracle, task, "sed: 1", "concurency: 1"),
			[]string{"did you mean seed?", "did you mean concurrency?"}},
		"no name": {strings.Replace(aRun(oracle, task), "{name: r}", "{}", 1),
			[]string{"metadata.name", "give the object a name"}},
		"a name that is a boolean in YAML": {strings.Replace(aRun(oracle, task), "{name: r}", "{name: no}", 1),
			[]string{"metadata.name", "put it in quotes"}},
		"a name that is a number in YAML": {strings.Replace(aRun(oracle, task), "{name: r}", "{name: 123}", 1),
			[]string{"metadata.name", "put it in quotes"}},
		"a percentage": {aRun(oracle, task, "passScore: 80%"), []string{"spec.passScore", "with a point, such as 0.8"}},
		"a long name": {strings.Replace(aRun(oracle, task), "{name: r}", "{name: "+strings.Repeat("r", 51)+"}",
			1), []string{"at most 50"}},
		"a wrong policy": {aRun("agent: {type: Builtin, builtin: {policy: Genius}}", task),
			[]string{"spec.agent.builtin.policy", `"Heuristic"`}},
		"a quoted number": {aRun(oracle, task, "thresholds: [{metric: passRate, min: '0.7'}]"),
			[]string{"spec.thresholds[0].min", "must be of type number", "such as 0.8, without quotes"}},
		"a bare Null": {aRun("agent: {type: Builtin, builtin: {policy: Null}}", task),
			[]string{"spec.agent.builtin.policy", "YAML reads a bare Null as no value, so write Noop"}},
		"a task by its name alone": {aRun(oracle, "tasks: [ticket-resolve]"),
			[]string{"spec.tasks[0]", "must be of type object", "write {name: TASK}"}},
		"a field of another place": {aRun("agent: {type: External}", "episodes: 5"),
			[]string{"unknown field spec.episodes: did you mean spec.agent.external.episodes?"}},
		"a long number": {aRun(oracle, task, "passScore: 0.1234567"),
			[]string{"spec.passScore", "at most six digits after the point"}},
		"no number":     {aRun(oracle, task, "passScore: .nan"), []string{"NaN"}},
		"a huge number": {aRun(oracle, task, "passScore: 1e999"), []string{"must be of type number"}},
		"an endpoint without a scheme": {aRun(strings.Replace(openAI, "http://localhost", "localhost", 1), task),
			[]string{"spec.agent.openAI.baseURL", "it has no scheme: begin it with http:// or https://"}},
		"an endpoint with a password": {aRun(strings.Replace(openAI, "http://localhost", "http://me:hunter2@localhost", 1),
			task), []string{"spec.agent.openAI.baseURL", "it has a user or a password"}},
		"a model with a blank": {aRun(strings.Replace(openAI, "model: m", "model: my model", 1), task),
			[]string{"spec.agent.openAI.model", "name the model in ASCII without blanks"}},
		"a price": {aRun(openAI, task, "prices: {input: '1,50', output: '2'}"),
			[]string{"spec.prices.input", "write a decimal such as 0.15"}},
		"a task in capitals": {aRun(oracle, "tasks: [{name: Resolve}]"),
			[]string{"spec.tasks[0].name", "name a task in lower-case letters"}},
		"a place of results": {aRun(oracle, task, "results: {url: 'file:///tmp'}"),
			[]string{"spec.results.url", "write a URL such as s3://bucket/folder"}},
		"a path": {aRun(oracle, task, "template: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: "+
			"/mnt/../etc}]}"), []string{"mountPath", "write an absolute path of letters"}},
		"a quantity": {aPool("environment: Ticket, template: {resources: {limits: {memory: lots}}}"),
			[]string{"spec.template.resources.limits.memory"}},
		"another kind": {"{apiVersion: v1, kind: Pod, metadata: {name: p}}",
			[]string{"the document is a Pod of v1"}},
		"a kind misspelt": {"{apiVersion: csenv.dev/v1alpha1, kind: EvalRun}",
			[]string{`kind is "EvalRun"`, "EvaluationRun"}},
		"no kind": {"spec: {}", []string{"no kind"}},
		"a key twice": {"kind: EvaluationRun\nkind: EvaluationRun\n",
			[]string{"no YAML", `"kind" already set`}},
		"no YAML":             {"{", []string{"-: "}},
		"the second document": {aRun(oracle, task) + "\n---\n" + aRun(oracle, "tasks: []"), []string{"spec.tasks"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, tc.text)
			if err == nil {
				t.Fatal("Read() took it")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error %q does not contain %q", err, want)
				}
			}
			for _, never := range []string{"should match", "[a-z", "hunter2"} {
				if strings.Contains(err.Error(), never) {
					t.Errorf("the error %q contains %q", err, never)
				}
			}
		})
	}
}

func TestReadsEveryDocument(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(file, []byte("# a comment\n---\n"+aRun(oracle, task)+"\n---\n"+aPool("")),
		0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := Read(t.Context(), []string{file, Stdin}, strings.NewReader(aPool("replicas: 3")))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects.Runs) != 1 || len(objects.Pools) != 2 || *objects.Pools[1].Spec.Replicas != 3 ||
		*objects.Runs[0].Spec.Concurrency != 16 {
		t.Errorf("Read() = %+v", objects)
	}
	wide := []byte{0xff, 0xfe} // UTF-16, as PowerShell writes it
	for _, b := range []byte(aRun(oracle, task)) {
		wide = append(wide, b, 0)
	}
	objects, err = Read(t.Context(), []string{Stdin}, bytes.NewReader(wide))
	if err != nil || len(objects.Runs) != 1 {
		t.Errorf("UTF-16: %v, %v", objects, err)
	}
	// As kubectl get -o yaml prints several objects.
	list := func(items ...string) string {
		text := "apiVersion: v1\nkind: List\nitems:\n"
		for _, item := range items {
			text += "- " + strings.ReplaceAll(strings.TrimSpace(item), "\n", "\n  ") + "\n"
		}
		return text
	}
	objects, err = Read(t.Context(), []string{Stdin}, strings.NewReader(list(aRun(oracle, task), aPool(""))))
	if err != nil || len(objects.Runs) != 1 || len(objects.Pools) != 1 {
		t.Errorf("a List: %v, %v", objects, err)
	}
	for text, want := range map[string]string{list("text"): "items[0] of the List is no object",
		list("kind: Pod\napiVersion: v1"): "the document is a Pod of v1"} {
		if _, err := Read(t.Context(), []string{Stdin}, strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := Read(t.Context(), []string{"none.yaml"}, nil); err == nil ||
		!strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("error = %v", err)
	}
}

// Every sample of the repository is valid.
func TestSamples(t *testing.T) {
	samples, err := filepath.Glob("../../../config/samples/*.yaml")
	training, trainingErr := filepath.Glob("../../../config/samples/training/*.yaml")
	if err != nil || trainingErr != nil || len(samples) < 5 || len(training) < 2 {
		t.Fatal(samples, training, err, trainingErr)
	}
	training = append(training, "../../../examples/learn/cluster.yaml")
	for _, sample := range append(samples, training...) {
		if filepath.Base(sample) == "kustomization.yaml" {
			continue
		}
		if _, err := Read(t.Context(), []string{sample}, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestFolders(t *testing.T) {
	folder := t.TempDir()
	if _, err := Read(t.Context(), []string{folder}, nil); err == nil ||
		!strings.Contains(err.Error(), "has no .yaml") {
		t.Errorf("an empty folder: %v", err)
	}
	pool := "apiVersion: csenv.dev/v1alpha1\nkind: CustomerSupportEnv\nmetadata: {name: a}\n"
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte(pool), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := Read(t.Context(), []string{folder}, nil)
	if err != nil || len(objects.Pools) != 1 {
		t.Errorf("Read() = %+v, %v", objects, err)
	}
}
