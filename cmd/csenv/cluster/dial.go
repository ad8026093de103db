package cluster

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/controllers/pods"
)

// Tunnel opens connections to one server of a pool through the API server, as kubectl port-forward
// does, so that a user needs no route to the pods.
type Tunnel struct {
	// Pod is the server's name.
	Pod     string
	through httpstream.Connection
	request atomic.Int64
}

// Tunnel opens a tunnel to a server of the pool. The user needs the right to create
// pods/portforward.
func (c *Connection) Tunnel(ctx context.Context, pool types.NamespacedName) (*Tunnel, error) {
	servers, err := c.listServers(ctx, pool)
	if err != nil {
		return nil, err
	}
	// A full server isn't ready, but says in words that it is full.
	pod := pods.FindFirst(servers, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && pods.IsReady(&p) })
	if pod == nil {
		pod = pods.FindFirst(servers,
			func(p corev1.Pod) bool { return p.DeletionTimestamp == nil && pods.IsServing(&p) })
	}
	if pod == nil {
		return nil, fmt.Errorf("pool %s has no running server: `csenv env status %s -n %s` says why", pool.Name,
			pool.Name, pool.Namespace)
	}
	type opened struct {
		through httpstream.Connection
		err     error
	}
	answer := make(chan opened, 1)
	go func() {
		through, err := c.forwardPort(pod)
		answer <- opened{through, err}
	}()
	select {
	case o := <-answer:
		return &Tunnel{Pod: pod.Name, through: o.through}, explainForward(o.err, pool)
	case <-ctx.Done():
		go func() {
			if late := <-answer; late.err == nil {
				_ = late.through.Close()
			}
		}()
		return nil, fmt.Errorf("connecting to pool %s through the API server: %w", pool.Name, ctx.Err())
	}
}

// forwardPort connects by WebSocket or, through an older API server, by SPDY.
func (c *Connection) forwardPort(pod *corev1.Pod) (httpstream.Connection, error) {
	target := c.core.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward").URL()
	sockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(target, c.config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(c.config)
	if err != nil {
		return nil, err
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	through, _, err := portforward.NewFallbackDialerForStreaming(sockets, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}).Dial(portforward.PortForwardProtocolV1Name)
	return through, err
}

// explainForward wraps an error with advice. A refused upgrade has no status but in its text.
func explainForward(err error, pool types.NamespacedName) error {
	if err == nil {
		return nil
	}
	if strings.Contains(strings.ToLower(err.Error()), "forbidden") {
		return fmt.Errorf("connecting to pool %s through the API server: your user may not forward ports: request the "+
			"right to get and create pods/portforward in namespace %s: %w", pool.Name, pool.Namespace, err)
	}
	return fmt.Errorf("connecting to pool %s through the API server: %w", pool.Name, err)
}

// Connect opens a connection to the server's port of the OpenEnv protocol. It is the Connect of a
// client's options.
func (t *Tunnel) Connect(context.Context, string, string) (net.Conn, error) {
	header := http.Header{}
	header.Set(corev1.PortHeader, strconv.Itoa(v1alpha1.EnvironmentPort))
	header.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(t.request.Add(1), 10))
	header.Set(corev1.StreamType, corev1.StreamTypeError)
	faults, err := t.through.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("connecting to server %s: %w", t.Pod, err)
	}
	_ = faults.Close() // nothing is written to it
	header.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := t.through.CreateStream(header)
	if err != nil {
		return nil, fmt.Errorf("connecting to server %s: %w", t.Pod, err)
	}
	// A pipe has the deadlines that a stream lacks.
	near, far := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, faults) }()
	go func() {
		_, _ = io.Copy(far, data) // either end may have gone
		_ = far.Close()
	}()
	go func() {
		_, _ = io.Copy(data, far)
		_ = data.Reset()
		t.through.RemoveStreams(faults, data)
	}()
	return near, nil
}

// Close closes all connections.
func (t *Tunnel) Close() { _ = t.through.Close() }
