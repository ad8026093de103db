package environment

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// plan lists the objects to apply: those that are missing and those that don't hold all that is
// wanted; and those to delete, which are no longer wanted. A name that something else has is left
// alone, for good or until it's free.
func plan(d decision) []child {
	var steps []child
	for _, c := range children(d) {
		live, exists := d.live[c.id]
		switch {
		case slices.Contains(d.taken, c.id) || slices.Contains(d.leaving, c.id):
		case c.config == nil && exists:
			c.obsolete = live
			steps = append(steps, c)
		case c.config != nil && (!exists || !settled(c, live)):
			steps = append(steps, c)
		}
	}
	return steps
}

// settled reports whether the object that exists is as it is wanted. Each rule of a NetworkPolicy
// admits somebody, so that it must have no more of them than are wanted.
func settled(c child, live client.Object) bool {
	got, want := fields(live), fields(c.config)
	if c.id.kind == kindNetworkPolicy && !reflect.DeepEqual(got["spec"], want["spec"]) {
		return false
	}
	return holds(got, want)
}

// fields is an object as its JSON has it, so that a typed object and an apply configuration can be
// compared. Its kind is left out: typed objects often come without.
func fields(object any) map[string]any {
	data, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("encoding an object: %v", err))
	}
	var decoded map[string]any
	if err := json.Unmarshal(data, &decoded); err != nil {
		panic(fmt.Sprintf("decoding an object: %v", err))
	}
	delete(decoded, "apiVersion")
	delete(decoded, "kind")
	return decoded
}

// holds reports whether live has everything that is wanted. It may have more: defaults of the API
// server, and fields and items of other owners. Items of a list of objects may stand in any order;
// a list of plain values must be equal.
func holds(live, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		return holdsFields(live, want)
	case []any:
		return holdsItems(live, want)
	default:
		return reflect.DeepEqual(live, want)
	}
}

func holdsFields(live any, want map[string]any) bool {
	object, ok := live.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range want {
		if got, exists := object[key]; !exists || !holds(got, value) {
			return false
		}
	}
	return true
}

func holdsItems(live any, want []any) bool {
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
		if !slices.ContainsFunc(items, func(got any) bool { return holds(got, item) }) {
			return false
		}
	}
	return true
}
