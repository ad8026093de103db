package environment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/environment/rules"
)

const (
	// fieldOwner owns the applied fields in all replicas and versions of the operator.
	fieldOwner    = client.FieldOwner("csenv-environment")
	marksInFlight = 8 // pods that are annotated at the same time
)

// writer writes what was decided.
type writer struct{ client client.Client }

// writeDecision writes the marks of pods and then the objects, as many as it can. If marks that the
// decision needs can't be written, the number of servers stays. It returns the memory of what
// admission changed.
func (w writer) writeDecision(ctx context.Context, d rules.Decision,
	accepted map[children.ID]string) (rules.Written, map[children.ID]string) {
	markErr := w.annotatePods(ctx, d.Env.Namespace, d.Marks)
	unmarked := markErr != nil && d.NeedsMarks
	steps := rules.ListSteps(d, d.Servers(unmarked), accepted)
	accepted, err := w.applySteps(ctx, d.Env.Namespace, steps, accepted)
	err = errors.Join(markErr, d.UpdatingErr, err, w.endAgain(ctx, d.Undrained))
	return rules.Written{Err: err, Applied: len(steps) > 0, Unmarked: unmarked}, accepted
}

// endAgain shortens the grace period of servers that are being deleted, so that the kubelet sends
// them SIGTERM again.
func (w writer) endAgain(ctx context.Context, servers []rules.Undrained) error {
	var failed []error
	for _, undrained := range servers {
		logf.FromContext(ctx).Info("A server that is being deleted doesn't drain", "pod", undrained.Pod.Name, "grace",
			undrained.Grace)
		err := w.client.Delete(ctx, undrained.Pod, client.Preconditions{UID: &undrained.Pod.UID},
			client.GracePeriodSeconds(undrained.Grace))
		if client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("ending server %s: %w", undrained.Pod.Name, err))
		}
	}
	return errors.Join(failed...)
}

// applySteps applies and deletes as many objects as it can. It returns what is accepted afterwards.
func (w writer) applySteps(ctx context.Context, namespace string, steps []rules.Step,
	accepted map[children.ID]string) (map[children.ID]string, error) {
	accepted = maps.Clone(accepted)
	if accepted == nil {
		accepted = map[children.ID]string{}
	}
	var failed []error
	for _, step := range steps {
		var err error
		verb := "applying"
		switch {
		case step.Scale != nil:
			verb = "scaling"
			err = w.scaleDeployment(ctx, namespace, step)
		case step.Obsolete == nil:
			err = w.applyOne(ctx, step.Child, accepted)
		default:
			// Another object may have taken the name.
			verb = "deleting"
			err = client.IgnoreNotFound(w.client.Delete(ctx, step.Obsolete,
				client.Preconditions{UID: new(step.Obsolete.GetUID())}))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s %s: %w", verb, step.ID, err))
			continue
		}
		logf.FromContext(ctx).Info("Changed an object of the pool", "change", verb, "object", step.ID.String())
	}
	return accepted, errors.Join(failed...)
}

// scaleDeployment changes only the number of servers of a Deployment that is otherwise left as it
// is.
func (w writer) scaleDeployment(ctx context.Context, namespace string, c rules.Step) error {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: c.ID.Name}}
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, *c.Scale)
	return w.client.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(patch)), fieldOwner)
}

// applyOne applies an object. If the answer isn't as intended, admission changed it and would do so
// again, so accepted has the answer. It is decoded into an unstructured object, because the
// client doesn't clear the fields of others that the answer lacks.
func (w writer) applyOne(ctx context.Context, c children.Child, accepted map[children.ID]string) error {
	answer := &unstructured.Unstructured{}
	if err := json.Unmarshal(children.EncodeJSON(c.Config), answer); err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if err := w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(answer), fieldOwner,
		client.ForceOwnership); err != nil {
		return err
	}
	if children.IsUpToDate(c, answer) {
		delete(accepted, c.ID)
		return nil
	}
	accepted[c.ID] = children.IdentifyState(c, answer)
	logf.FromContext(ctx).Info("Admission changed an object of the pool; it stays so", "object", c.ID.String())
	return nil
}

// annotatePods writes the marks. Pods that no longer exist are ignored.
func (w writer) annotatePods(ctx context.Context, namespace string, marks []rules.Mark) error {
	var group errgroup.Group
	group.SetLimit(marksInFlight)
	failed := make([]error, len(marks))
	for i, mark := range marks {
		group.Go(func() error {
			patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": mark.Annotations}})
			if err != nil {
				return fmt.Errorf("encoding annotations: %w", err)
			}
			pod := &corev1.Pod{}
			pod.Namespace, pod.Name = namespace, mark.Pod
			if err := w.client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch),
				fieldOwner); client.IgnoreNotFound(err) != nil {
				failed[i] = fmt.Errorf("annotating Pod %s: %w", mark.Pod, err)
			}
			return nil
		})
	}
	return errors.Join(group.Wait(), errors.Join(failed...))
}

// writeStatus writes the status of a pool.
func (w writer) writeStatus(ctx context.Context, env *v1alpha1.CustomerSupportEnv,
	status v1alpha1.CustomerSupportEnvStatus) error {
	updated := env.DeepCopy()
	updated.Status = status
	if err := w.client.Status().Update(ctx, updated); err != nil {
		return fmt.Errorf("writing status: %w", err)
	}
	return nil
}
