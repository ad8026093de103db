// Package manifest reads csenv's objects from files as the API server would take them: the same
// schema, the same defaults, the same rules, in the API server's own libraries and from the
// CustomResourceDefinitions of this version. A manifest that is good here is good for kubectl
// apply. It is stricter in one thing: a field that the schema doesn't know is an error, which names
// the nearest one that it knows.
package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Stdin is the name of a file that stands for standard input.
const Stdin = "-"

// Objects are what files hold, in their order.
type Objects struct {
	Runs  []*v1alpha1.EvaluationRun
	Pools []*v1alpha1.CustomerSupportEnv
}

// Read reads files of YAML or JSON, several documents each if need be. Its errors name the file,
// the object and the field, all of them.
func Read(ctx context.Context, files []string, stdin io.Reader) (*Objects, error) {
	kinds, err := loadKinds()
	if err != nil {
		return nil, err
	}
	objects := &Objects{}
	var faults []error
	for _, name := range files {
		data, err := readFile(name, stdin)
		if err != nil {
			return nil, err
		}
		faults = append(faults, objects.add(ctx, kinds, name, data)...)
	}
	return objects, errors.Join(faults...)
}

func readFile(name string, stdin io.Reader) ([]byte, error) {
	if name == Stdin {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return nil, fmt.Errorf("reading the manifest from standard input: %w", err)
		}
		return data, nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest: %w", err)
	}
	return data, nil
}

func (o *Objects) add(ctx context.Context, kinds map[string]*kind, name string, data []byte) []error {
	var faults []error
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return faults
		}
		if err != nil {
			return append(faults, fmt.Errorf("%s: %w", name, err))
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		for _, err := range o.addDocument(ctx, kinds, document) {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
}

func (o *Objects) addDocument(ctx context.Context, kinds map[string]*kind, document []byte) []error {
	object := map[string]any{}
	// Strict refuses a key that is there twice. Whole numbers stay such: the schema tells them from
	// others.
	if err := yaml.UnmarshalStrict(document, &object, yaml.DisallowUnknownFields); err != nil {
		return []error{fmt.Errorf("it is no YAML of an object: %w", err)}
	}
	if len(object) == 0 {
		return nil // a document of comments
	}
	k, err := kindOf(kinds, object)
	if err != nil {
		return []error{err}
	}
	if faults := k.complete(ctx, wholeNumbers(object).(map[string]any)); len(faults) > 0 {
		return faults
	}
	return o.convert(k.name, object)
}

// wholeNumbers makes int64 of the float64 that YAML's way through JSON gives for them, as the API
// server's decoder does.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = wholeNumbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = wholeNumbers(value)
		}
	case float64:
		if whole := int64(v); float64(whole) == v {
			return whole
		}
	}
	return v
}

// convert makes the typed object. What the schema lets pass decodes.
func (o *Objects) convert(kind string, object map[string]any) []error {
	into := func(typed any) []error {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
			return []error{fmt.Errorf("decoding %s: %w", kind, err)}
		}
		return nil
	}
	if kind == runKind {
		run := &v1alpha1.EvaluationRun{}
		o.Runs = append(o.Runs, run)
		return into(run)
	}
	pool := &v1alpha1.CustomerSupportEnv{}
	o.Pools = append(o.Pools, pool)
	return into(pool)
}

// Run completes and checks a run that was made of flags.
func Run(ctx context.Context, run *v1alpha1.EvaluationRun) (*v1alpha1.EvaluationRun, error) {
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), runKind
	data, err := yaml.Marshal(run)
	if err != nil {
		return nil, fmt.Errorf("writing the run's manifest: %w", err)
	}
	return one(ctx, data, func(o *Objects) []*v1alpha1.EvaluationRun { return o.Runs })
}

// Pool completes and checks a pool that was made of flags.
func Pool(ctx context.Context, pool *v1alpha1.CustomerSupportEnv) (*v1alpha1.CustomerSupportEnv, error) {
	pool.APIVersion, pool.Kind = v1alpha1.GroupVersion.String(), poolKind
	data, err := yaml.Marshal(pool)
	if err != nil {
		return nil, fmt.Errorf("writing the pool's manifest: %w", err)
	}
	return one(ctx, data, func(o *Objects) []*v1alpha1.CustomerSupportEnv { return o.Pools })
}

func one[T any](ctx context.Context, data []byte, of func(*Objects) []*T) (*T, error) {
	kinds, err := loadKinds()
	if err != nil {
		return nil, err
	}
	objects := &Objects{}
	if err := errors.Join(objects.addDocument(ctx, kinds, data)...); err != nil {
		return nil, err
	}
	return of(objects)[0], nil
}

func kindOf(kinds map[string]*kind, object map[string]any) (*kind, error) {
	version, _ := object["apiVersion"].(string)
	name, _ := object["kind"].(string)
	k, known := kinds[name]
	switch {
	case name == "":
		return nil, fmt.Errorf("the document has no kind: begin it with apiVersion: %s and kind: %s",
			v1alpha1.GroupVersion, runKind)
	case !known && strings.HasPrefix(version, v1alpha1.GroupVersion.Group+"/"):
		return nil, fmt.Errorf("kind is %q: %s has %s and %s", name, v1alpha1.GroupVersion, runKind, poolKind)
	case !known || version != v1alpha1.GroupVersion.String():
		return nil, fmt.Errorf("the document is a %s of %s: this command takes objects of %s alone", name, version,
			v1alpha1.GroupVersion)
	}
	return k, nil
}

// nearest is the name that is most like another one, "" if none is.
func nearest(name string, names []string) string {
	best, least := "", len(name)/2+1
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is Levenshtein's, over bytes: field names are ASCII.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j := range b {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
