package v1alpha1_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/api/v1alpha1"
)

const crdFolder = "../../config/crd/bases"

func readCRDs(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(crdFolder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs in %s (%v): run make generate", crdFolder, err)
	}
	crds := make([]apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, &crds[i]); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return crds
}

// adopted are the fields that hold Kubernetes' own types or free-form values. Their
// insides are not ours to shape.
func adopted() []string {
	return []string{
		"spec.access.allowedNamespaces.selector", "spec.agent.container.env", "spec.agent.container.envFrom",
		"spec.agent.container.resources", "spec.agent.container.volumeMounts",
		"spec.agent.openAI.extraBody",
		"spec.autoscaling.freeSessions", "spec.service.annotations", "spec.suspend", "spec.template",
	}
}

// fieldRule returns the rule that a field of the API breaks, "" if it breaks none.
type fieldRule func(name string, schema apiextensionsv1.JSONSchemaProps) string

func fieldRules() map[string]fieldRule {
	return map[string]fieldRule{
		"numbers are bounded": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			bounded := s.Minimum != nil && s.Maximum != nil && len(s.XValidations) > 0
			return complain(s.Type == "number" && !bounded, "is a number without a minimum, a maximum or a rule for "+
				"its digits")
		},
		"strings are bounded": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			bounded := s.MaxLength != nil || len(s.Enum) > 0 || s.Format == "date-time"
			return complain(s.Type == "string" && !bounded, "is a string of any length")
		},
		"no patterns": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			own := s.Pattern != "" && !strings.Contains(s.Description, "condition") // those of a condition are Kubernetes's
			return complain(own, "has a pattern, which users would read as the message: write a rule of CEL")
		},
		"lists are bounded": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.Type == "array" && s.MaxItems == nil, "is a list of any length")
		},
		"lists merge": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.Type == "array" && s.XListType == nil,
				"is a list without a list type: server-side apply can't merge it")
		},
		"no maps": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.AdditionalProperties != nil, "is a map: use a list of named items")
		},
		"no booleans": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.Type == "boolean", "is a boolean: use an enum, which a third value can join")
		},
		"integers have a width": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.Type == "integer" && s.Format != "int32" && s.Format != "int64",
				"is an integer of no known width")
		},
		"integers have a least value": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.Type == "integer" && s.Minimum == nil, "is an integer without a minimum")
		},
		"nothing is unspecified": func(_ string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(s.XPreserveUnknownFields != nil || s.XEmbeddedResource || s.Type == "", "holds anything")
		},
		"descriptions begin with the name": func(name string, s apiextensionsv1.JSONSchemaProps) string {
			return complain(!strings.HasPrefix(s.Description, name+" "),
				fmt.Sprintf("is described as %q: begin with the field's name", s.Description))
		},
	}
}

func complain(wrong bool, text string) string {
	if wrong {
		return text
	}
	return ""
}

// violations are what a rule finds in the fields under a schema.
func violations(rule fieldRule, path string, schema apiextensionsv1.JSONSchemaProps) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		property, at := schema.Properties[name], path+"."+name
		if slices.Contains(adopted(), at) {
			continue
		}
		if wrong := rule(name, property); wrong != "" {
			found = append(found, at+" "+wrong)
		}
		found = append(found, violations(rule, at, property)...)
		if property.Items != nil {
			found = append(found, violations(rule, at+"[]", *property.Items.Schema)...)
		}
	}
	return found
}

// TestConventions checks the API conventions of Kubernetes, in the folder
// contributors/devel/sig-architecture of github.com/kubernetes/community.
func TestConventions(t *testing.T) {
	t.Parallel()
	for _, crd := range readCRDs(t) {
		for name, rule := range fieldRules() {
			t.Run(crd.Spec.Names.Kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
				for _, part := range []string{"spec", "status"} {
					property, ok := root.Properties[part]
					if !ok {
						t.Fatalf("no %s", part)
					}
					for _, wrong := range violations(rule, part, property) {
						t.Error(wrong)
					}
				}
			})
		}
	}
}

// A rule that nothing can break holds nothing.
func TestConventionsCanBeBroken(t *testing.T) {
	t.Parallel()
	item := apiextensionsv1.JSONSchemaProps{Description: "item one", Type: "string"}
	preserve := true
	broken := map[string]apiextensionsv1.JSONSchemaProps{
		"numbers are bounded": {Type: "number"},
		"strings are bounded": {Type: "string"},
		"no patterns":         {Type: "string", Pattern: "^a$"},
		"lists are bounded": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &item}},
		"lists merge": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &item}},
		"no maps": {Type: "object",
			AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}},
		"no booleans":                      {Type: "boolean"},
		"integers have a width":            {Type: "integer"},
		"integers have a least value":      {Type: "integer"},
		"nothing is unspecified":           {Type: "object", XPreserveUnknownFields: &preserve},
		"descriptions begin with the name": {Description: "The field."},
	}
	for name, rule := range fieldRules() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
				Schema: &apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"field": broken[name]}},
			}}
			root := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"list": list}}
			if found := violations(rule, "spec", root); !slices.ContainsFunc(found,
				func(s string) bool { return strings.HasPrefix(s, "spec.list[].field ") }) {
				t.Errorf("found %q", found)
			}
		})
	}
}

// Conditions come first, and are Kubernetes' own.
func TestConditionsComeFirst(t *testing.T) {
	t.Parallel()
	for _, status := range []any{v1alpha1.CustomerSupportEnvStatus{}, v1alpha1.EvaluationRunStatus{}} {
		first := reflect.TypeOf(status).Field(0)
		if first.Name != "Conditions" || first.Type != reflect.TypeFor[[]metav1.Condition]() {
			t.Errorf("%T begins with %s %s", status, first.Name, first.Type)
		}
	}
}

// Every constant is documented where it is declared, and no two have the same value.
func TestReasonsAreDistinct(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "conditions.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, isValue := node.(*ast.ValueSpec)
		if !isValue {
			return true
		}
		name := spec.Names[0].Name
		if len(spec.Names) != 1 || len(spec.Values) != 1 {
			t.Fatalf("%s isn't one name with one value", name)
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if first, _, _ := strings.Cut(spec.Doc.Text(), " "); strings.TrimSuffix(first, ":") != name {
			t.Errorf("%s has no comment that begins with its name", name)
		}
		// A condition may have a reason of its own name.
		kind, isOwnName := strings.CutSuffix(name, value)
		if !isOwnName || kind != "Reason" && kind != "Condition" {
			t.Errorf("%s = %s", name, value)
		}
		if twin, taken := seen[kind+value]; taken {
			t.Errorf("%s and %s are both %s", name, twin, value)
		}
		seen[kind+value] = name
		return true
	})
	if len(seen) < 10 {
		t.Fatalf("only %d constants found", len(seen))
	}
}

// kubectl get is what most people see of the API.
func TestColumns(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"CustomerSupportEnv": "Environment Available State Ready Replicas Sessions Capacity Age",
		"EvaluationRun":      "Env Agent Done Score Pass Met State Age",
	}
	for _, crd := range readCRDs(t) {
		var names []string
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			if column.Priority == 0 {
				names = append(names, column.Name)
			}
		}
		if diff := cmp.Diff(want[crd.Spec.Names.Kind], strings.Join(names, " ")); diff != "" {
			t.Errorf("columns of %s (-want +got):\n%s", crd.Spec.Names.Kind, diff)
		}
	}
}
