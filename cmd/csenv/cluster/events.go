package cluster

import (
	"context"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	eventsTimeout = 5 * time.Second
	// maxEvents bounds the events that are read. The API server deletes them after an hour.
	maxEvents = 200
)

// Events returns the events of a run in any order. It returns none if the user may not list events.
func (c *Connection) Events(ctx context.Context, run *v1alpha1.EvaluationRun) ([]corev1.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	list := &corev1.EventList{}
	err := c.core.Get().Namespace(run.Namespace).Resource("events").Param("limit", strconv.Itoa(maxEvents)).
		Param("fieldSelector", fields.OneTermEqualSelector("involvedObject.uid", string(run.UID)).String()).
		Do(ctx).Into(list)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, ExplainError(err, "listing the events of run "+run.Name)
	}
	return list.Items, nil
}
