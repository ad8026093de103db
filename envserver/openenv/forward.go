package openenv

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gorilla/websocket"
	"golang.org/x/sync/semaphore"
)

const (
	// clientHeader is the address of the client, for a peer that counts the sessions of each.
	clientHeader = "X-Csenv-Client"
	// fullHeader declines a session that a peer has passed on.
	fullHeader = "X-Csenv-Full"
)

const (
	// passOnWait bounds the search for a peer with room, and maxTries the peers that are tried.
	passOnWait = time.Second
	maxTries   = 3
)

// What is forwarded, as the metrics name it.
const (
	forwardedSocket  = "socket"
	forwardedRequest = "request"
)

// How forwarding ended, as the metrics name it.
const (
	forwardDone        = "done"
	forwardDeclined    = "declined"
	forwardUnreachable = "unreachable"
	forwardLost        = "lost"
)

var (
	errDeclined    = errors.New("the peer has no room")
	errUnreachable = errors.New("the peer can't be reached")
)

// target is what a request wants to be played on.
type target struct {
	// session is the id that it names, "" for none.
	session string
	// opens is true for one that begins a session.
	opens bool
	// body is the request's, read already. It is nil for requests without one.
	body []byte
}

// targetOf reads what the request wants, just as the handlers do. A body that is too large or
// broken is left to them.
func targetOf(r *http.Request) target {
	switch path := r.URL.Path; {
	case (path == "/ws" || path == "/mcp") && websocket.IsWebSocketUpgrade(r):
		id := sessionIDOf(r)
		return target{session: id, opens: id == ""}
	case path == "/state":
		return target{session: sessionIDOf(r)}
	case path == "/mcp" && r.Method != http.MethodPost:
		return target{session: r.Header.Get(mcpSessionHeader)}
	case r.Method == http.MethodPost && (path == "/mcp" || path == "/reset" || path == "/step"):
		body, ok := peek(r)
		if !ok {
			return target{}
		}
		t := target{session: r.Header.Get(mcpSessionHeader), body: body}
		switch {
		case path != "/mcp":
			t.session = gymSession(r, body)
		case t.session == "":
			t.session, t.opens = rpcTarget(body)
		}
		return t
	}
	return target{}
}

// peek reads the body, and puts it back.
func peek(r *http.Request) (body []byte, ok bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, protocol.MaxBody+1))
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	return body, err == nil && len(body) <= protocol.MaxBody
}

// rewind gives the request its body again.
func (t target) rewind(r *http.Request) {
	if t.body != nil {
		r.Body = io.NopCloser(bytes.NewReader(t.body))
	}
}

// gymSession is the session of a POST /reset or /step.
func gymSession(r *http.Request, body []byte) string {
	if id, _ := sessionIDIn(body); id != "" {
		return id
	}
	return sessionIDOf(r)
}

// rpcTarget is the session that a POST /mcp names, or whether it begins one.
func rpcTarget(body []byte) (session string, opens bool) {
	if method := methodOf(body); method == "initialize" || method == "openenv/session/create" {
		return "", true
	}
	request, fault := decodeRPC(body)
	if fault != nil {
		return "", false
	}
	var params struct {
		SessionID jsontext.Value `json:"session_id"`
	}
	if request.params != nil && jsonv2.Unmarshal(request.params, &params) == nil && given(params.SessionID) {
		session, _ = readText(params.SessionID)
	}
	return session, false
}

// routed has each request answered by the server of the session that it names, and passes new
// sessions on while there is no room here. Messages on a socket never come by here.
func (s *Server) routed(next http.Handler) http.Handler {
	if s.peers == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(protocol.DirectHeader) != "" {
			s.answerDirectly(w, r, next)
			return
		}
		t := targetOf(r)
		switch {
		case t.opens:
			if s.openHere(w, r, next) || s.passOn(w, r, t) {
				return
			}
		case t.session != "":
			if owner := s.peers.owner(r.Context(), t.session); owner != "" && s.forward(w, r, t, owner) == nil {
				return
			}
		}
		// A session whose server is gone is one that nobody knows.
		t.rewind(r)
		next.ServeHTTP(w, r)
	})
}

// answerDirectly answers what must not be forwarded. A session that a peer passes on is begun or
// declined at once.
func (s *Server) answerDirectly(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !s.peers.vouches(r) || !targetOf(r).opens {
		next.ServeHTTP(w, r)
		return
	}
	if !s.openHere(w, r, next) {
		w.Header().Set(fullHeader, "true")
		writeDetail(w, http.StatusServiceUnavailable, s.sessions.refusal().Error())
	}
}

// serveRoom tells peers how many sessions this server would take.
func (s *Server) serveRoom(w http.ResponseWriter, r *http.Request) {
	if !s.peers.vouches(r) {
		writeDetail(w, http.StatusForbidden, "only servers of the pool ask for room")
		return
	}
	var free int64
	if !s.sessions.isDraining() {
		free = int64(s.sessions.capacity - s.sessions.active())
	}
	writeJSON(w, http.StatusOK, room{Free: free})
}

// seat is a slot that was taken before there is a session for it: a request that came when there
// was room must not find that another one was quicker.
type seat struct {
	slots *semaphore.Weighted
	// gone is true once the slot belongs to somebody else.
	gone atomic.Bool
}

// seatKey is the context key of a *seat.
type seatKey struct{}

// reserve takes a slot, or returns nil if there is none.
func (r *registry) reserve() *seat {
	if r.isDraining() || !r.slots.TryAcquire(1) {
		return nil
	}
	return &seat{slots: r.slots}
}

// withSeat carries the seat, if there is one, to where the session is opened.
func withSeat(ctx context.Context, held *seat) context.Context {
	if held == nil {
		return ctx
	}
	return context.WithValue(ctx, seatKey{}, held)
}

// seatOf is the seat that was reserved for a request, nil for none.
func seatOf(ctx context.Context) *seat {
	held, _ := ctx.Value(seatKey{}).(*seat)
	return held
}

// claim takes the slot over. It reports false if there is none, or no more.
func (s *seat) claim() bool { return s != nil && s.gone.CompareAndSwap(false, true) }

// move takes the slot out of the hands of whoever would give it back.
func (s *seat) move() *seat {
	if !s.claim() {
		return nil
	}
	return &seat{slots: s.slots}
}

// giveBack frees the slot unless somebody has claimed it.
func (s *seat) giveBack() {
	if s.claim() {
		s.slots.Release(1)
	}
}

// openHere has a request answered that begins a session, if there is a slot for it.
func (s *Server) openHere(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	held := s.sessions.reserve()
	if held == nil {
		return false
	}
	defer held.giveBack()
	next.ServeHTTP(w, r.WithContext(withSeat(r.Context(), held)))
	return true
}

// passOn has a peer begin the session. It reports false if none does.
func (s *Server) passOn(w http.ResponseWriter, r *http.Request, t target) bool {
	ctx, cancel := context.WithTimeout(r.Context(), passOnWait)
	defer cancel()
	var tried []string
	for len(tried) < maxTries && ctx.Err() == nil {
		peer := s.peers.roomiest(ctx, tried)
		if peer == "" {
			return false
		}
		if s.forward(w, r, t, peer) == nil {
			return true
		}
		tried = append(tried, peer)
	}
	return false
}

// forward has a peer answer the request. The error, errDeclined or errUnreachable, means that
// nothing was done and the client has no answer.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, t target, peer string) error {
	kind, run := forwardedRequest, s.forwardRequest
	if websocket.IsWebSocketUpgrade(r) {
		kind, run = forwardedSocket, s.forwardSocket
	}
	t.rewind(r)
	result := forwardDone
	err := run(w, r, t, peer)
	switch {
	case errors.Is(err, errDeclined):
		result = forwardDeclined
	case errors.Is(err, errUnreachable):
		result = forwardUnreachable
	case err != nil:
		result = forwardLost
		s.log.Warn("A peer was lost while it answered", "peer", peer, "error", err)
		err = nil
	}
	s.metrics.forwarded.WithLabelValues(kind, result).Inc()
	return err
}

// forwardRequest forwards plain HTTP.
func (s *Server) forwardRequest(w http.ResponseWriter, r *http.Request, t target, peer string) error {
	var failure error
	sent := false
	r = r.WithContext(httptrace.WithClientTrace(r.Context(),
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent = true }}))
	proxy := httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { s.peers.address(p.Out, p.In, peer) },
		Transport:     s.peers.transport,
		FlushInterval: -1, // events of MCP go out as they come
		ModifyResponse: func(response *http.Response) error {
			if response.Header.Get(fullHeader) != "" {
				return errDeclined
			}
			return nil
		},
		ErrorLog:     s.peers.errors,
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
	}
	if r.Method == http.MethodGet { // perhaps a stream of events
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	proxy.ServeHTTP(w, r)
	switch {
	case failure == nil || errors.Is(failure, errDeclined):
		return failure
	case !sent:
		return errors.Join(errUnreachable, failure)
	}
	s.answerLost(w, r, t)
	return failure
}

// address makes the request one for the peer.
func (p *peers) address(out, in *http.Request, peer string) {
	out.URL.Scheme, out.URL.Host, out.Host = p.scheme, peer, in.Host
	out.Header.Set(protocol.DirectHeader, p.proof)
	out.Header.Set(clientHeader, hostOf(in))
}

// answerLost tells the client that nobody knows how far its request got.
func (s *Server) answerLost(w http.ResponseWriter, r *http.Request, t target) {
	const message = "the server of this session was lost while it answered"
	if r.URL.Path != "/mcp" || r.Header.Get(mcpSessionHeader) != "" {
		writeDetail(w, http.StatusBadGateway, message)
		return
	}
	request, _ := decodeRPC(t.body)
	var out bytes.Buffer
	writeRPC(&out, request.id, nil, &rpcError{Code: rpcServer, Message: message})
	writeBytes(w, http.StatusOK, out.Bytes())
}
