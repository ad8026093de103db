package manifest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/config/crd"
	"github.com/csenv/csenv/envserver/endpoint"
	"github.com/csenv/csenv/scenarios/source"
)

const (
	runKind  = "EvaluationRun"
	poolKind = "CustomerSupportEnv"
)

// kind is a compiled CustomResourceDefinition.
type kind struct {
	name      string
	schema    *schema.Structural
	validator validation.SchemaCreateValidator
	rules     *cel.Validator
}

// LoadDefinitions returns the CustomResourceDefinitions of this version by kind.
func LoadDefinitions() (map[string]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(crd.Bases, "bases/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the definitions: %w", err)
	}
	definitions := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, name := range files {
		data, err := crd.Bases.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the definitions: %w", err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, definition); err != nil {
			return nil, fmt.Errorf("reading the definition %s: %w", path.Base(name), err)
		}
		definitions[definition.Spec.Names.Kind] = definition
	}
	return definitions, nil
}

// loadKinds compiles the definitions at its first call.
var loadKinds = sync.OnceValues(func() (map[string]*kind, error) {
	definitions, err := LoadDefinitions()
	if err != nil {
		return nil, err
	}
	kinds := map[string]*kind{}
	for name, definition := range definitions {
		if kinds[name], err = newKind(definition); err != nil {
			return nil, fmt.Errorf("loading the definition of %s: %w", name, err)
		}
	}
	return kinds, nil
})

func newKind(definition *apiextensionsv1.CustomResourceDefinition) (*kind, error) {
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, err
	}
	return &kind{
		name: definition.Spec.Names.Kind, schema: structural, validator: validator,
		rules: cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// complete sets the defaults of an object and returns its errors. The API server takes the same
// steps in the same order.
func (k *kind) complete(ctx context.Context, object map[string]any) []error {
	if unknown := k.unknown(object); len(unknown) > 0 {
		return unknown
	}
	delete(object, "status") // a manifest can't set it
	defaulting.PruneNonNullableNullsWithoutDefaults(object, k.schema)
	defaulting.Default(object, k.schema)
	found := nameFaults(object)
	found = append(found, validation.ValidateCustomResource(nil, object, k.validator)...)
	found = append(found, listtype.ValidateListSetsAndMaps(nil, k.schema, object)...)
	if len(found) == 0 {
		// Rules expect objects that match the schema.
		found, _ = k.rules.Validate(ctx, nil, k.schema, object, nil, celconfig.RuntimeCELCostBudget)
	}
	var faults []error
	for _, fault := range found {
		k.explainPattern(fault)
		fault.Detail += suggestFix(fault)
		if fault.Field == "<nil>" { // a rule of the whole object
			faults = append(faults, fmt.Errorf("%s: %s", k.label(object), fault.Detail))
			continue
		}
		faults = append(faults, fmt.Errorf("%s: %w", k.label(object), fault))
	}
	return faults
}

// explainPattern says in words what a URL of an endpoint, or a quantity, must be.
func (k *kind) explainPattern(fault *field.Error) {
	text, _ := fault.BadValue.(string)
	at := k.at(fault.Field)
	switch err := endpoint.CheckBase(text); {
	case err != nil && strings.HasSuffix(fault.Field, ".baseURL"):
		// The URL may hold a secret.
		fault.Type, fault.BadValue, fault.Detail = field.ErrorTypeForbidden, nil, err.Error()
	case strings.Contains(fault.Detail, "should match '"): // one of Kubernetes's own types
		fault.Detail = "write a quantity such as 500m or 2Gi"
		if at != nil && at.Description != "" {
			fault.Detail = strings.Join(strings.Fields(at.Description), " ")
		}
	}
}

// taskPath is the path of a task.
var taskPath = regexp.MustCompile(`^spec\.tasks\[[0-9]+\]$`)

// suggestFix is what to do about a mistake that many make, "" for others.
func suggestFix(fault *field.Error) string {
	switch {
	case fault.Type == field.ErrorTypeTypeInvalid && strings.Contains(fault.Detail, "of type number"):
		return ": write it as a number with a point, such as 0.8, without quotes and %"
	case fault.Type == field.ErrorTypeTypeInvalid && taskPath.MatchString(fault.Field):
		return ": write {name: TASK}"
	case fault.Type == field.ErrorTypeRequired && fault.Field == "spec.agent.builtin.policy":
		return ": name one; YAML reads a bare Null as no value, so write Noop"
	default:
		return ""
	}
}

func nameFaults(object map[string]any) field.ErrorList {
	metadata, _ := object["metadata"].(map[string]any)
	name, isText := metadata["name"].(string)
	at := field.NewPath("metadata", "name")
	if given := metadata["name"]; given != nil && !isText {
		return field.ErrorList{field.Invalid(at, given, "put it in quotes: YAML doesn't read it as a text")}
	}
	if name == "" {
		return field.ErrorList{field.Required(at, "give the object a name")}
	}
	var faults field.ErrorList
	for _, message := range content.IsDNS1123Subdomain(name) {
		faults = append(faults, field.Invalid(at, name, message))
	}
	return faults
}

func (k *kind) label(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return strings.TrimSpace(k.name + " " + name)
}

// unknown returns an error for each field that is not in the schema, with the nearest known field.
func (k *kind) unknown(object map[string]any) []error {
	paths := pruning.PruneWithOptions(object, k.schema, true,
		schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(paths)
	faults := make([]error, 0, len(paths))
	for _, at := range paths {
		hint := "see `kubectl explain " + strings.ToLower(k.name) + ".spec --recursive`"
		parent, name := parentOf(at)
		if near := source.NearestWord(name, k.properties(parent)); near != "" {
			hint = "did you mean " + near + "?"
		} else if elsewhere := findField(k.schema, "", name); elsewhere != "" {
			hint = "did you mean " + elsewhere + "?"
		}
		faults = append(faults, errors.New(k.label(object)+": unknown field "+at+": "+hint))
	}
	return faults
}

// findField returns the path of the first field of a name in a schema's specs, "" if there is none.
func findField(s *schema.Structural, at, name string) string {
	for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
		child, path := s.Properties[property], strings.TrimPrefix(at+"."+property, ".")
		if property == name {
			return path
		}
		if child.Items != nil {
			child = *child.Items
			path += "[]"
		}
		if found := findField(&child, path, name); found != "" && property != "status" {
			return found
		}
	}
	return ""
}

func parentOf(at string) (parent, name string) {
	if i := strings.LastIndexByte(at, '.'); i >= 0 {
		return at[:i], at[i+1:]
	}
	return "", at
}

var indexPattern = regexp.MustCompile(`\[[0-9]+\]`)

// properties returns the field names of the schema at a path such as spec.tasks[0].
func (k *kind) properties(at string) []string {
	s := k.at(at)
	if s == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// at returns the schema at a path such as spec.tasks[0], nil if there is none.
func (k *kind) at(path string) *schema.Structural {
	s := k.schema
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' }) {
		name, index := indexPattern.ReplaceAllString(step, ""), indexPattern.FindString(step)
		child, ok := s.Properties[name]
		if !ok {
			return nil
		}
		s = &child
		if index != "" {
			s = s.Items
		}
		if s == nil {
			return nil
		}
	}
	return s
}
