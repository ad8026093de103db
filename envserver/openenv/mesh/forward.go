package mesh

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// passOnTimeout bounds the search for a peer with a free slot, maxTries the tried peers.
	passOnTimeout = time.Second
	maxTries      = 3
)

// The kinds and results of forwarding in the metrics.
const (
	forwardedSocket  = "socket"
	forwardedRequest = "request"

	forwardDone        = "done"
	forwardDeclined    = "declined"
	forwardUnreachable = "unreachable"
	forwardLost        = "lost"
)

// forwardCall lets a peer answer the request. After errDeclined or errUnreachable nothing was done
// and the client has no answer.
func (m *Mesh) forwardCall(w http.ResponseWriter, r *http.Request, t target, peer string) error {
	kind, run := forwardedRequest, m.forwardRequest
	if websocket.IsWebSocketUpgrade(r) {
		kind, run = forwardedSocket, m.forwardSocket
	}
	t.rewindBody(r)
	result := forwardDone
	err := run(w, r, t, peer)
	switch {
	case errors.Is(err, errDeclined):
		result = forwardDeclined
	case errors.Is(err, errUnreachable):
		result = forwardUnreachable
	case err != nil:
		result = forwardLost
		m.host.Log.Warn("A peer was lost while it answered", "peer", peer, "error", err)
		err = nil
	}
	m.forwarded.WithLabelValues(kind, result).Inc()
	return err
}

// forwardRequest forwards plain HTTP.
func (m *Mesh) forwardRequest(w http.ResponseWriter, r *http.Request, t target, peer string) error {
	var failure error
	sent := false
	r = r.WithContext(httptrace.WithClientTrace(r.Context(),
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }}))
	proxy := httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { m.addressRequest(p.Out, p.In, peer) },
		Transport:     m.transport,
		FlushInterval: -1, // send MCP events at once
		ModifyResponse: func(response *http.Response) error {
			if response.Header.Get(fullHeader) != "" {
				return errDeclined
			}
			return nil
		},
		ErrorLog:     m.errors,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
	}
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/call") { // perhaps a stream of events
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	proxy.ServeHTTP(w, r)
	switch {
	case failure == nil || errors.Is(failure, errDeclined):
		return failure
	case !sent:
		return errors.Join(errUnreachable, failure)
	}
	m.answerLost(w, r, t)
	return failure
}

// addressRequest directs the request to the peer.
func (m *Mesh) addressRequest(out, in *http.Request, peer string) {
	out.URL.Scheme, out.URL.Host, out.Host = "http", peer, in.Host
	out.Header.Set(protocol.DirectHeader, m.proof)
	out.Header.Set(clientHeader, remoteHost(in))
}

// answerLost answers a request that the peer may have processed.
func (m *Mesh) answerLost(w http.ResponseWriter, r *http.Request, t target) {
	const message = "the server of this session was lost while it answered"
	if r.URL.Path != "/mcp" || r.Header.Get(protocol.MCPSessionHeader) != "" {
		protocol.WriteDetail(w, http.StatusBadGateway, message)
		return
	}
	request, _ := protocol.DecodeRPC(t.body)
	var out bytes.Buffer
	protocol.WriteRPC(&out, request.ID, nil, &protocol.RPCError{Code: protocol.RPCServer, Message: message})
	protocol.WriteBytes(w, http.StatusOK, out.Bytes())
}
