// Package manifest reads csenv's objects from files and validates them like the API server: with
// the same schema, defaults and rules, through the API server's own libraries and the
// CustomResourceDefinitions of this version. It is stricter in one point: an unknown field is an
// error, which suggests the nearest known field.
package manifest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Stdin is the file name that means standard input.
const Stdin = "-"

// Objects are the objects of some files, in their order.
type Objects struct {
	Runs  []*v1alpha1.EvaluationRun
	Pools []*v1alpha1.CustomerSupportEnv
}

// Read reads files of YAML or JSON with one or more documents each. Its errors name the file, the
// object and the field.
func Read(ctx context.Context, files []string, stdin io.Reader) (*Objects, error) {
	kinds, err := loadKinds()
	if err != nil {
		return nil, err
	}
	objects := &Objects{}
	var faults []error
	files, err = expandFolders(files)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		data, err := readFile(name, stdin)
		if err != nil {
			return nil, err
		}
		faults = append(faults, objects.add(ctx, kinds, name, data)...)
	}
	return objects, errors.Join(faults...)
}

// expandFolders replaces folders by the manifests in them, as kubectl does.
func expandFolders(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			files = append(files, name) // reading it reports what is wrong
			continue
		}
		before := len(files)
		for _, pattern := range []string{"*.yaml", "*.yml", "*.json"} {
			found, err := filepath.Glob(filepath.Join(name, pattern))
			if err != nil {
				return nil, fmt.Errorf("listing the manifests of %s: %w", name, err)
			}
			files = append(files, found...)
		}
		if len(files) == before {
			return nil, fmt.Errorf("the folder %s has no .yaml, .yml or .json file", name)
		}
	}
	return files, nil
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
	// PowerShell writes UTF-16 with a byte order mark.
	text := transform.NewReader(bytes.NewReader(data), unicode.BOMOverride(transform.Nop))
	documents := utilyaml.NewYAMLReader(bufio.NewReader(text))
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
	// Strict rejects duplicate keys and unknown fields.
	if err := yaml.UnmarshalStrict(document, &object, yaml.DisallowUnknownFields); err != nil {
		return []error{fmt.Errorf("it is no YAML of an object: %w", err)}
	}
	if len(object) == 0 {
		return nil // a document of comments
	}
	return o.addObject(ctx, kinds, object)
}

// addObject adds an object, or the objects of a List, which kubectl get -o yaml prints of several.
func (o *Objects) addObject(ctx context.Context, kinds map[string]*kind, object map[string]any) (faults []error) {
	if items, ok := object["items"].([]any); ok && object["kind"] == "List" && object["apiVersion"] == "v1" {
		for i, item := range items {
			inner, ok := item.(map[string]any)
			if !ok {
				faults = append(faults, fmt.Errorf("items[%d] of the List is no object", i))
				continue
			}
			faults = append(faults, o.addObject(ctx, kinds, inner)...)
		}
		return faults
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

// wholeNumbers converts float64 values without a fraction to int64, as the API server's decoder
// does.
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

// convert decodes an object that matches the schema.
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

// CompleteRun completes and validates a run built from flags.
func CompleteRun(ctx context.Context, run *v1alpha1.EvaluationRun) (*v1alpha1.EvaluationRun, error) {
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), runKind
	data, err := yaml.Marshal(run)
	if err != nil {
		return nil, fmt.Errorf("writing the run's manifest: %w", err)
	}
	return readObject(ctx, data, func(o *Objects) []*v1alpha1.EvaluationRun { return o.Runs })
}

// CompletePool completes and validates a pool built from flags.
func CompletePool(ctx context.Context, pool *v1alpha1.CustomerSupportEnv) (*v1alpha1.CustomerSupportEnv, error) {
	pool.APIVersion, pool.Kind = v1alpha1.GroupVersion.String(), poolKind
	data, err := yaml.Marshal(pool)
	if err != nil {
		return nil, fmt.Errorf("writing the pool's manifest: %w", err)
	}
	return readObject(ctx, data, func(o *Objects) []*v1alpha1.CustomerSupportEnv { return o.Pools })
}

func readObject[T any](ctx context.Context, data []byte, of func(*Objects) []*T) (*T, error) {
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
