package objects_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/csenv/csenv/controllers/objects"
)

func TestIgnoreExpected(t *testing.T) {
	t.Parallel()
	resource, cause := schema.GroupResource{Group: "batch", Resource: "jobs"}, errors.New("cause")
	terminating := apierrors.NewForbidden(resource, "run", cause)
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	tests := map[string]struct {
		err         error
		wantRequeue time.Duration
		wantErr     bool
	}{
		"conflict":                 {apierrors.NewConflict(resource, "run", cause), objects.ConflictDelay, false},
		"already exists":           {apierrors.NewAlreadyExists(resource, "run"), objects.ConflictDelay, false},
		"not found":                {apierrors.NewNotFound(resource, "run"), 0, false},
		"the namespace is deleted": {terminating, 0, false},
		"forbidden":                {apierrors.NewForbidden(resource, "run", cause), 0, true},
		"another error":            {cause, 0, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := objects.IgnoreExpected(fmt.Errorf("writing: %w", tt.err))
			if result.RequeueAfter != tt.wantRequeue || (err != nil) != tt.wantErr {
				t.Errorf("requeued after %v, error %v", result.RequeueAfter, err)
			}
		})
	}
}
