package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
)

// Run reads a run of the namespace. If it is missing, the error lists the existing runs.
func (c *Connection) Run(ctx context.Context, name string) (*v1alpha1.EvaluationRun, error) {
	run := &v1alpha1.EvaluationRun{}
	err := c.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: name}, run)
	switch {
	case err == nil:
		run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
		return run, nil
	case !apierrors.IsNotFound(err) || strings.Contains(err.Error(), "could not find the requested resource"):
		return nil, ExplainError(err, "reading run "+name)
	}
	return nil, c.noRun(ctx, name)
}

// maxNamed is the maximum number of names in a message.
const maxNamed = 8

func (c *Connection) noRun(ctx context.Context, name string) error {
	list := &v1alpha1.EvaluationRunList{}
	if err := c.List(ctx, list, "", ""); err != nil {
		return fmt.Errorf("there is no run %s in namespace %s: choose another namespace with -n", name, c.Namespace)
	}
	var here, elsewhere []string
	for _, run := range list.Items {
		switch {
		case run.Namespace == c.Namespace:
			here = append(here, run.Name)
		case run.Name == name:
			elsewhere = append(elsewhere, run.Namespace)
		}
	}
	switch {
	case len(elsewhere) > 0:
		return fmt.Errorf("run %s is not in namespace %s, but in %s: choose that namespace with -n", name, c.Namespace,
			strings.Join(elsewhere, ", "))
	case len(here) == 0:
		return fmt.Errorf("there is no run in namespace %s: choose another namespace with -n, or create a run with "+
			"`csenv run`", c.Namespace)
	}
	slices.Sort(here)
	more := ""
	if len(here) > maxNamed {
		more, here = fmt.Sprintf(" and %d more", len(here)-maxNamed), here[:maxNamed]
	}
	return fmt.Errorf("there is no run %s in namespace %s: choose one of %s%s", name, c.Namespace,
		strings.Join(here, ", "), more)
}

// Runs lists the runs of the namespace that match a selector, by name.
func (c *Connection) Runs(ctx context.Context, selector string) ([]*v1alpha1.EvaluationRun, error) {
	chosen, err := labels.Parse(selector)
	if err != nil {
		return nil, fmt.Errorf("reading -l: %w", err)
	}
	list := &v1alpha1.EvaluationRunList{}
	if err := c.List(ctx, list, c.Namespace, chosen.String()); err != nil {
		return nil, ExplainError(err, "listing runs")
	}
	runs := make([]*v1alpha1.EvaluationRun, len(list.Items))
	for i := range list.Items {
		runs[i] = &list.Items[i]
	}
	return runs, nil
}
