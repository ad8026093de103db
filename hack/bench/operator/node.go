package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/csenv/csenv/api/v1alpha1"
)

const (
	nodeName = "simulated"
	// podsAtOnce is how many pods the node works on side by side.
	podsAtOnce = 16
)

// node simulates a scheduler and a kubelet: it binds every pod to itself, reports it as running at
// once, and ends deleted pods at once.
//
// It isn't kwok, which simulates the same: what a runner leaves behind is signed with its pool's
// key, and no template of kwok's could do that.
type node struct {
	client  client.Client
	fleet   *fleet
	players *players
}

// startNode runs the node until the context ends. The returned channel gets its error.
func startNode(ctx context.Context, cfg *rest.Config, f *fleet, p *players) (<-chan error, error) {
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the simulated node: %w", err)
	}
	n := &node{client: mgr.GetClient(), fleet: f, players: p}
	err = ctrl.NewControllerManagedBy(mgr).Named("node").For(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: podsAtOnce}).Complete(n)
	if err != nil {
		return nil, fmt.Errorf("setting up the simulated node: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return done, nil
}

// Reconcile brings one pod a step further. Each step changes the pod, which leads to the next one.
func (n *node) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	if err := n.client.Get(ctx, req.NamespacedName, pod); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	return ctrl.Result{}, client.IgnoreNotFound(n.step(ctx, pod))
}

func (n *node) step(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		n.fleet.stop(pod.UID)
		return n.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	case pod.Spec.NodeName == "":
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
		return n.client.SubResource("binding").Create(ctx, pod, binding)
	case pod.Status.Phase == corev1.PodPending && pod.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentEnvServer:
		return n.serve(ctx, pod)
	case pod.Status.Phase == corev1.PodPending && pod.Labels[v1alpha1.LabelComponent] == v1alpha1.ComponentRunner:
		status, err := n.players.finish(ctx, pod)
		if err != nil {
			return err
		}
		pod.Status = status
		return n.client.Status().Update(ctx, pod)
	}
	return nil
}

// serve has the pod's server run and be ready.
func (n *node) serve(ctx context.Context, pod *corev1.Pod) error {
	address, err := n.fleet.start(ctx, pod.UID, n.players.rollouts(pod))
	if err != nil {
		return err
	}
	now := metav1.NewTime(time.Now())
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address, PodIPs: []corev1.PodIP{{IP: address}}, StartTime: &now,
		QOSClass: pod.Status.QOSClass,
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return n.client.Status().Update(ctx, pod)
}
