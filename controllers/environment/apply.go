package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// changes lists the objects to apply, which are missing or lack an intended field, and those to
// delete. A name that another object has is left alone, and so is an object that admission changed
// when it was last applied and that is still as accepted says.
func changes(d decision, accepted map[childID]string) []child {
	var steps []child
	for _, c := range children(d) {
		live, exists := d.live[c.id]
		switch {
		case slices.Contains(d.taken, c.id) || slices.Contains(d.leaving, c.id):
		case c.id.kind == kindDeployment && d.postponed:
			if ptr.Deref(d.deployment().Spec.Replicas, 1) != d.scaling.to {
				c.scale = new(d.scaling.to)
				steps = append(steps, c)
			}
		case c.config == nil && exists:
			c.obsolete = live
			steps = append(steps, c)
		case c.config != nil && (!exists || !isUpToDate(c, live) && accepted[c.id] != intended(c, live)):
			steps = append(steps, c)
		}
	}
	return steps
}

// isUpToDate reports whether the live object has every intended field. Each rule of a NetworkPolicy
// admits clients, so it must have no other rules.
func isUpToDate(c child, live any) bool {
	got, want := fields(live), fields(c.config)
	if c.id.kind == kindNetworkPolicy && !reflect.DeepEqual(got["spec"], want["spec"]) {
		return false
	}
	return holds(got, want)
}

// apply applies and deletes as many objects as it can.
func (r *Reconciler) apply(ctx context.Context, namespace string, steps []child, m *memory) error {
	var failed []error
	for _, step := range steps {
		var err error
		verb := "applying"
		switch {
		case step.scale != nil:
			verb = "scaling"
			err = r.scale(ctx, namespace, step)
		case step.obsolete == nil:
			err = r.applyOne(ctx, step, m)
		default:
			// Another object may have taken the name.
			verb = "deleting"
			err = client.IgnoreNotFound(r.client.Delete(ctx, step.obsolete,
				client.Preconditions{UID: new(step.obsolete.GetUID())}))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", verb, step.id, err))
			continue
		}
		logf.FromContext(ctx).Info("Changed an object of the pool", "change", verb, "object", step.id.String())
	}
	return errors.Join(failed...)
}

// scale changes only the number of servers of a Deployment that is otherwise left as it is.
func (r *Reconciler) scale(ctx context.Context, namespace string, c child) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.id.name}}
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, *c.scale)
	return r.client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(patch)), fieldOwner)
}

// applyOne applies an object. If the answer isn't as intended, admission changed it and would do so
// again, so the memory accepts the answer. It is decoded into an unstructured object, because the
// client doesn't clear the fields of others that the answer lacks.
func (r *Reconciler) applyOne(ctx context.Context, c child, m *memory) error {
	answer := &unstructured.Unstructured{}
	if err := json.Unmarshal(encode(c.config), answer); err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), fieldOwner,
		client.ForceOwnership); err != nil {
		return err
	}
	if isUpToDate(c, answer) {
		delete(m.accepted, c.id)
		return nil
	}
	if m.accepted == nil {
		m.accepted = map[childID]string{}
	}
	m.accepted[c.id] = intended(c, answer)
	logf.FromContext(ctx).Info("Admission changed an object of the pool; it stays so", "object", c.id.String())
	return nil
}

// intended identifies the configuration and what live has in its fields.
func intended(c child, live any) string {
	want := fields(c.config)
	return hash([]any{want, restrict(fields(live), want)})
}

// restrict drops the fields of objects that want doesn't have. Lists stay as they are.
func restrict(live, want any) any {
	object, isObject := live.(map[string]any)
	wanted, wantsObject := want.(map[string]any)
	if !isObject || !wantsObject {
		return live
	}
	kept := map[string]any{}
	for key, value := range wanted {
		if got, exists := object[key]; exists {
			kept[key] = restrict(got, value)
		}
	}
	return kept
}

// fields decodes an object's JSON, so that typed objects and apply configurations can be compared.
// The kind is dropped, because typed objects often have none.
func fields(object any) map[string]any {
	var decoded map[string]any
	if err := json.Unmarshal(encode(object), &decoded); err != nil {
		panic(fmt.Sprintf("decoding a %T: %v", object, err))
	}
	delete(decoded, "apiVersion")
	delete(decoded, "kind")
	return decoded
}

// holds reports whether live has every intended value. It may have more: defaults, and fields and
// items of other owners. Objects of a list may be in any order; lists of plain values must be
// equal.
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
