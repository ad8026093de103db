package children

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// IsUpToDate reports whether the live object has every intended field. Each rule of a NetworkPolicy
// admits clients, so it must have no other rules.
func IsUpToDate(c Child, live any) bool {
	got, want := decodeFields(live), decodeFields(c.Config)
	if c.ID.Kind == KindNetworkPolicy && !reflect.DeepEqual(got["spec"], want["spec"]) {
		return false
	}
	return hasAll(got, want)
}

// IdentifyState identifies the configuration and what live has in its fields.
func IdentifyState(c Child, live any) string {
	want := decodeFields(c.Config)
	return hashJSON([]any{want, restrictFields(decodeFields(live), want)})
}

// restrictFields drops the fields of objects that want doesn't have. Lists stay as they are.
func restrictFields(live, want any) any {
	object, isObject := live.(map[string]any)
	wanted, wantsObject := want.(map[string]any)
	if !isObject || !wantsObject {
		return live
	}
	kept := map[string]any{}
	for key, value := range wanted {
		if got, exists := object[key]; exists {
			kept[key] = restrictFields(got, value)
		}
	}
	return kept
}

// decodeFields decodes an object's JSON, so that typed objects and apply configurations can be
// compared. The kind is dropped, because typed objects often have none.
func decodeFields(object any) map[string]any {
	var decoded map[string]any
	if err := json.Unmarshal(EncodeJSON(object), &decoded); err != nil {
		panic(fmt.Sprintf("decoding a %T: %v", object, err))
	}
	delete(decoded, "apiVersion")
	delete(decoded, "kind")
	return decoded
}

// hasAll reports whether live has every intended value. It may have more: defaults, and fields and
// items of other owners. Objects of a list may be in any order; lists of plain values must be
// equal.
func hasAll(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		return hasFields(live, want)
	case []any:
		return hasItems(live, want)
	default:
		return reflect.DeepEqual(live, want)
	}
}

func hasFields(live any, want map[string]any) bool {
	object, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range want {
		if got, exists := object[key]; !exists || !hasAll(got, value) {
			return false
		}
	}
	return true
}

func hasItems(live any, want []any) bool {
	items, ok := live.([]any)
	if !ok {
		return false
	}
	if len(want) > 0 {
		if _, objects := want[0].(map[string]any); !objects {
			return reflect.DeepEqual(items, want)
		}
	}
	for _, item := range want {
		if !slices.ContainsFunc(items, func(got any) bool { return hasAll(got, item) }) {
			return false
		}
	}
	return true
}
