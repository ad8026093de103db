package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/controllers/objects"
	"github.com/csenv/csenv/controllers/run/rules"
	"github.com/csenv/csenv/controllers/run/snapshot"
)

// refusedError means that the API server refuses an object of the run: a quota, an admission policy
// or a value that isn't valid. It lasts until a user changes that.
type refusedError struct {
	object string
	err    error
}

func (e *refusedError) Error() string { return fmt.Sprintf("writing %s: %v", e.object, e.err) }

func (e *refusedError) Unwrap() error { return e.err }

// isRefusal reports whether a write failed because of its content or its user. A webhook that fails
// is answered with 500.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code <= http.StatusInternalServerError &&
		code != http.StatusUnauthorized && code != http.StatusNotFound
}

// markRefusal returns a *refusedError if the API server refuses the object.
func markRefusal(object string, err error) error {
	var status apierrors.APIStatus
	if !isRefusal(err) || !errors.As(err, &status) {
		return err
	}
	return &refusedError{object: object, err: errors.New(status.Status().Message)}
}

// handleWriteError ends a pass whose write has failed.
func (w *writer) handleWriteError(ctx context.Context, snap snapshot.Snapshot, next rules.Decision,
	err error) (ctrl.Result, error) {
	if e, ok := errors.AsType[*refusedError](err); ok {
		return w.writeRefusal(ctx, snap, next, e)
	}
	return objects.IgnoreExpected(err)
}

// writeRefusal writes to the status that the API server refuses an object, and tries again later.
// The next pass keeps what is written until the object exists.
func (w *writer) writeRefusal(ctx context.Context, snap snapshot.Snapshot, next rules.Decision,
	e *refusedError) (ctrl.Result, error) {
	d := rules.ReportRefusal(snap, next, e.object, e.err)
	var run v1alpha1.EvaluationRun
	if err := w.direct.Get(ctx, client.ObjectKeyFromObject(snap.Run), &run); err != nil {
		return objects.IgnoreExpected(client.IgnoreNotFound(err))
	}
	if run.UID != snap.Run.UID || evaluation.HasEnded(run.Status.Conditions) {
		return ctrl.Result{}, nil
	}
	snap.Run = &run
	snap.OpenFigures()
	if err := w.writeStatus(ctx, snap, d); err != nil {
		return objects.IgnoreExpected(err)
	}
	return ctrl.Result{RequeueAfter: d.Again}, nil
}
