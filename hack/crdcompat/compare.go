package main

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// renamed are fields of the status, which the operator writes again, that had another name before
// the first release.
var renamed = []string{"rounds", "roundsBefore"}

// deprecated is in the description of a field that the next release may remove.
const deprecated = "Deprecated:"

// compareCRDs lists what an object or a client that fits before may miss or violate after. It
// doesn't compare CEL rules: most of them say what the servers couldn't do anyway.
func compareCRDs(before, after *apiextensionsv1.CustomResourceDefinition) []string {
	kind := before.Spec.Names.Kind
	var breaks []string
	for _, was := range before.Spec.Versions {
		at := slices.IndexFunc(after.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == was.Name
		})
		switch {
		case at < 0 || was.Served && !after.Spec.Versions[at].Served:
			breaks = append(breaks, fmt.Sprintf("%s: version %s is no longer served", kind, was.Name))
		default:
			is := after.Spec.Versions[at].Schema
			breaks = append(
				breaks,
				compareSchemas(kind+" "+was.Name, was.Schema.OpenAPIV3Schema, is.OpenAPIV3Schema)...)
		}
	}
	return breaks
}

// compareSchemas compares the schemas of the value at a path.
func compareSchemas(path string, before, after *apiextensionsv1.JSONSchemaProps) []string {
	var breaks []string
	report := func(broken bool, format string, args ...any) {
		if broken {
			breaks = append(breaks, path+": "+fmt.Sprintf(format, args...))
		}
	}
	report(before.Type != after.Type, "the type was %q and is %q", before.Type, after.Type)
	report(before.Nullable && !after.Nullable, "null is no longer allowed")
	for _, name := range after.Required {
		report(!slices.Contains(before.Required, name), "%s is now required", name)
	}
	for _, value := range before.Enum {
		report(len(after.Enum) > 0 && !slices.ContainsFunc(after.Enum, func(v apiextensionsv1.JSON) bool {
			return string(v.Raw) == string(value.Raw)
		}), "%s is no longer allowed", value.Raw)
	}
	report(len(before.Enum) == 0 && len(after.Enum) > 0, "the values are now limited")
	report(after.Pattern != "" && !isWiderPattern(before.Pattern, after.Pattern), "the pattern was %q and is %q",
		before.Pattern, after.Pattern)
	report(isRaised(before.Minimum, after.Minimum) || isRaised(before.MinLength, after.MinLength) ||
		isRaised(before.MinItems, after.MinItems) || isRaised(before.MinProperties, after.MinProperties),
		"a minimum is raised")
	report(isLowered(before.Maximum, after.Maximum) || isLowered(before.MaxLength, after.MaxLength) ||
		isLowered(before.MaxItems, after.MaxItems) || isLowered(before.MaxProperties, after.MaxProperties),
		"a maximum is lowered")
	return append(breaks, compareSubschemas(path, before, after)...)
}

// optionalEnd matches an optional group without inner groups, and the end of a pattern.
var optionalEnd = regexp.MustCompile(`^\([^()]*\)\?\$$`)

// isWiderPattern reports whether a pattern plainly accepts all that the one before accepted: it is
// the same, or has an optional group before its end.
func isWiderPattern(before, after string) bool {
	added, ok := strings.CutPrefix(after, strings.TrimSuffix(before, "$"))
	return before == after || ok && strings.HasSuffix(before, "$") && optionalEnd.MatchString(added)
}

// compareSubschemas compares the schemas of the fields, items and values at a path.
func compareSubschemas(path string, before, after *apiextensionsv1.JSONSchemaProps) []string {
	var breaks []string
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		was := before.Properties[name]
		is, ok := after.Properties[name]
		if ok {
			breaks = append(breaks, compareSchemas(path+"."+name, &was, &is)...)
		} else if !strings.Contains(was.Description, deprecated) && !slices.Contains(renamed, name) {
			breaks = append(breaks, fmt.Sprintf("%s: %s is removed", path, name))
		}
	}
	if before.Items != nil && after.Items != nil {
		breaks = append(breaks, compareSchemas(path+"[]", before.Items.Schema, after.Items.Schema)...)
	}
	was, is := before.AdditionalProperties, after.AdditionalProperties
	if was != nil && is != nil && was.Schema != nil && is.Schema != nil {
		breaks = append(breaks, compareSchemas(path+"{}", was.Schema, is.Schema)...)
	}
	return breaks
}

func isRaised[T cmp.Ordered](before, after *T) bool {
	return after != nil && (before == nil || *after > *before)
}

func isLowered[T cmp.Ordered](before, after *T) bool {
	return after != nil && (before == nil || *after < *before)
}
