// Package client is a client of OpenEnv servers. Dial opens a session; the Fetch functions use
// HTTP.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	// It decodes as encoding/json does, in a third of the time.
	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

const (
	dialTimeout = 10 * time.Second
	// connectTimeout is shorter than dialTimeout, because the address of a deleted pod doesn't
	// answer.
	connectTimeout = 5 * time.Second
	requestTimeout = 15 * time.Second
	closeTimeout   = 5 * time.Second
	// maxReply bounds a message from the server, in bytes, as in the official client.
	maxReply = 100 << 20
	// maxKept bounds the memory, in bytes, of a buffer that is used again.
	maxKept = 64 << 10
	// maxAnswer bounds the answer to an HTTP request, in bytes.
	maxAnswer = 1 << 20
)

// Client is one session with an OpenEnv server. Only Close is safe for concurrent use. After an
// error that is neither a *ServerError nor a *ForkError the session is lost: dial again.
type Client struct {
	current atomic.Pointer[connection]
	baseURL string
	options Options
	closing sync.Once
}

// connection is a socket of the session.
type connection struct {
	*websocket.Conn
	// answers carries messages from the goroutine that reads, which also answers pings while the
	// agent thinks. It is closed when reading has failed with readErr.
	answers chan *bytes.Buffer
	readErr error
	silence time.Duration
	closed  atomic.Bool
}

// Observation answers a reset or a step.
type Observation struct {
	// Observation is the environment's part, a JSON object.
	Observation json.RawMessage
	// Reward is valid only if HasReward, because a server may send null.
	Reward    float64
	HasReward bool
	Done      bool
	// Metadata is empty until the episode ends.
	Metadata Metadata
}

// Metadata is sent by csenv servers at the end of an episode.
type Metadata struct {
	// EpisodeScore is from 0 to 1, nil for an errored episode.
	EpisodeScore   *float64 `json:"episode_score"`
	ScoreBreakdown []Points `json:"score_breakdown"`
	// Right is false if the episode doesn't pass, whatever its score, nil for an errored episode.
	Right          *bool         `json:"right"`
	Outcome        score.Outcome `json:"outcome"`
	Judge          string        `json:"judge"`
	ScenarioDigest string        `json:"scenario_digest"`
	GraderVersion  string        `json:"grader_version"`
	// Verdicts are the judge's, in order (see record.Grade).
	Verdicts []json.RawMessage `json:"verdicts"`
	// Customer are the exchanges with a customer that is a model.
	Customer []episode.Exchange `json:"customer"`
	// Forked is true if another session has, or had, the beginning of the episode.
	Forked bool `json:"forked"`
	// Cause is the reason of an errored episode, for example "judge_timeout".
	Cause string `json:"cause"`
	// CauseDetail is what the server knows of it, for people; "" for nothing.
	CauseDetail string `json:"cause_detail"`
	// Receipt is the signed proof of a run's episode (see score.VerifyReceipt), "" for replayed and
	// other episodes.
	Receipt string `json:"receipt"`
}

// Points is one dimension of a score, as shares of the full score.
type Points struct {
	Name    string  `json:"name"`
	Earned  float64 `json:"earned"`
	Offered float64 `json:"offered"`
}

// Dimension converts the points to milli-points exactly.
func (p Points) Dimension() score.Dimension {
	milli := func(share float64) int64 { return int64(math.Round(share * 1000)) }
	return score.Dimension{Name: p.Name, Earned: milli(p.Earned), Offered: milli(p.Offered)}
}

// ServerError is an error message of the server. It ends the session only if Code is
// CAPACITY_REACHED, FACTORY_ERROR or SESSION_ERROR.
type ServerError struct {
	Code    string
	Message string
	// Cause is the class of a failure to judge, after which the action may be sent again, "" for
	// others.
	Cause string
	Data  json.RawMessage // the complete data of the message
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("server error: %s (code: %s)", e.Message, e.Code)
}

// Options are the options of requests to a server. The zero value is for a server without tokens.
type Options struct {
	// Token is the bearer token of a protected server, "" for none. http and ws don't encrypt it.
	Token string
	// Credential is the credential of the run whose ledgers are fetched, "" for none.
	Credential string
	// Spread lets a full or draining server pass a new session on to a peer, and hand it over to
	// one before it ends. Leave it false to fetch the ledger afterwards, which only the server of
	// the session has.
	Spread bool
	// SessionID names a session to attach to instead of a new one, also on a peer.
	SessionID string
	// Silence is how long the server may send nothing, not even a ping, before the session counts
	// as lost, 0 for ever. Use protocol.MaxSilence for a csenv server.
	Silence time.Duration
	// Connect opens connections, nil for TCP ones. With it no proxy is used.
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o Options) header() http.Header {
	h := http.Header{}
	if o.Token != "" {
		h.Set("Authorization", "Bearer "+o.Token)
	}
	if o.Credential != "" {
		h.Set(protocol.CredentialHeader, o.Credential)
	}
	return h
}

// StatusError is the HTTP status of a refused handshake or request.
type StatusError struct {
	Status int
	Detail string // the beginning of the body
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.Status, http.StatusText(e.Status))
	if e.Status == http.StatusUnauthorized {
		text += ", is the token right?"
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// maxDetail bounds the detail of a StatusError, in bytes.
const maxDetail = 200

func statusError(status int, body []byte) *StatusError {
	return &StatusError{Status: status, Detail: string(bytes.ToValidUTF8(
		bytes.TrimSpace(body[:min(len(body), maxDetail)]), nil))}
}

// Dial opens a session at the path /ws below the base URL, which has the scheme http, https, ws or
// wss or is a host and port. A refused handshake is a *StatusError.
func Dial(ctx context.Context, baseURL string, o Options) (*Client, error) {
	conn, err := openConnection(ctx, baseURL, o)
	if err != nil {
		return nil, err
	}
	c := newClient(conn)
	c.baseURL, c.options = baseURL, o
	return c, nil
}

func openConnection(ctx context.Context, baseURL string, o Options) (*connection, error) {
	target, err := buildRouteURL(baseURL, "ws", "/ws")
	if err != nil {
		return nil, err
	}
	header := o.header()
	if o.SessionID != "" {
		target.RawQuery = url.Values{"session_id": {o.SessionID}}.Encode()
	} else if !o.Spread {
		header.Set(protocol.DirectHeader, "client")
	}
	dialer := websocket.Dialer{
		NetDialContext: connector.DialContext, HandshakeTimeout: dialTimeout, Proxy: chooseProxy,
		ReadBufferSize: 4096, WriteBufferSize: 4096,
	}
	if o.Connect != nil {
		dialer.NetDialContext, dialer.Proxy = o.Connect, nil
	}
	conn, response, err := dialer.DialContext(ctx, target.String(), header)
	if response != nil {
		defer response.Body.Close()
	}
	if err != nil && response != nil {
		body, _ := io.ReadAll(io.LimitReader(response.Body, maxDetail))
		err = statusError(response.StatusCode, body)
	}
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", target, err)
	}
	return newConnection(conn, o.Silence), nil
}

var (
	connector = net.Dialer{Timeout: connectTimeout}
	requester = http.Client{Transport: &http.Transport{Proxy: chooseProxy,
		DialContext: connector.DialContext, IdleConnTimeout: time.Minute}, Timeout: requestTimeout}
)

// chooseProxy is the environment's. A request with a run's credential uses none, because the
// variables of a runner are its author's, who could read the credential behind a proxy.
func chooseProxy(r *http.Request) (*url.URL, error) {
	if r.Header.Get(protocol.CredentialHeader) != "" {
		return nil, nil //nolint:nilnil // no proxy, as in net/http
	}
	return environmentProxy(r)
}

// environmentProxy is replaced in a test, because net/http reads the environment once.
var environmentProxy = http.ProxyFromEnvironment

func newClient(conn *connection) *Client {
	c := &Client{}
	c.current.Store(conn)
	return c
}

func newConnection(conn *websocket.Conn, silence time.Duration) *connection {
	conn.SetReadLimit(maxReply)
	c := &connection{Conn: conn, answers: make(chan *bytes.Buffer, 1), silence: silence}
	pong := conn.PingHandler()
	conn.SetPingHandler(func(payload string) error {
		c.heard()
		return pong(payload)
	})
	go c.read()
	return c
}

// heard extends the read deadline, which is short after the client has sent close.
func (c *connection) heard() {
	if c.silence == 0 {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(c.silence))
	if c.closed.Load() { // set by Close, perhaps in between
		_ = c.SetReadDeadline(time.Now().Add(closeTimeout))
	}
}

// buffers are the buffers of messages that have been decoded.
var buffers = sync.Pool{New: func() any { return &bytes.Buffer{} }}

// read reads messages until the connection ends. The protocol has one answer to each message; read
// closes the connection if the server sends more.
func (c *connection) read() {
	defer close(c.answers)
	for {
		c.heard()
		_, message, err := c.NextReader()
		raw := buffers.Get().(*bytes.Buffer)
		raw.Reset()
		if err == nil {
			_, err = raw.ReadFrom(message)
		}
		if err != nil {
			c.readErr = err
			return
		}
		select {
		case c.answers <- raw:
		default:
			c.readErr = errors.New("the server sent a message without a request")
			_ = c.Close()
			return
		}
	}
}

// Reset begins an episode. Data, if not nil, is marshalled to the reset's options, a JSON object.
func (c *Client) Reset(ctx context.Context, data any) (Observation, error) {
	if data == nil {
		data = struct{}{}
	}
	return c.observe(ctx, "reset", data)
}

// Step plays an action, which is marshalled to a JSON object.
func (c *Client) Step(ctx context.Context, action any) (Observation, error) {
	return c.observe(ctx, "step", action)
}

// State returns the episode's state, a JSON object.
func (c *Client) State(ctx context.Context) (json.RawMessage, error) {
	return exchangeMessage[json.RawMessage](ctx, c, outbound{Type: "state"}, "state")
}

type outbound struct {
	Type string `json:"type"`
	Data any    `json:"data,omitempty"`
}

type inbound[T any] struct {
	Type string `json:"type"`
	Data T      `json:"data"`
}

// observed is the data of an observation's message.
type observed struct {
	Observation json.RawMessage `json:"observation"`
	Reward      *float64        `json:"reward"`
	Done        bool            `json:"done"`
	Metadata    Metadata        `json:"metadata"`
}

func (c *Client) observe(ctx context.Context, kind string, data any) (Observation, error) {
	wire, err := exchangeMessage[*observed](ctx, c, outbound{Type: kind, Data: data}, "observation")
	if err != nil {
		return Observation{}, err
	}
	return wire.read(kind)
}

// read returns the observation that answers a message.
func (wire *observed) read(kind string) (Observation, error) {
	if wire == nil {
		return Observation{}, fmt.Errorf("the server answered %s without data", kind)
	}
	o := Observation{Observation: wire.Observation, Done: wire.Done, Metadata: wire.Metadata}
	if wire.Reward != nil {
		o.Reward, o.HasReward = *wire.Reward, true
	}
	return o, nil
}

// decoding reads answers as encoding/json does, but doesn't read them twice to find errors first.
var decoding = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false))

// exchangeMessage sends a message and reads the data of its answer. When the context ends, it
// closes the connection, because a late answer would be read as the next one.
func exchangeMessage[T any](ctx context.Context, c *Client, message outbound, want string) (T, error) {
	var answer inbound[T]
	raw, err := c.roundTrip(ctx, message)
	if err != nil {
		return answer.Data, fmt.Errorf("playing %s: %w", message.Type, err)
	}
	if raw.Cap() <= maxKept {
		defer buffers.Put(raw) // decoding copies what the answer keeps
	}
	err = jsonv2.Unmarshal(raw.Bytes(), &answer, decoding)
	if err == nil && answer.Type == want {
		return answer.Data, nil
	}
	var other inbound[json.RawMessage]
	var none T
	switch unreadable := json.Unmarshal(raw.Bytes(), &other); {
	case unreadable != nil:
		return none, fmt.Errorf("playing %s: %w", message.Type, unreadable)
	case other.Type == "error":
		return none, serverError(other.Data)
	case other.Type == want:
		return none, fmt.Errorf("decoding the answer to %s: %w", message.Type, err)
	}
	return none, fmt.Errorf("the server answered %s with a message of type %q, not %q", message.Type, other.Type, want)
}

func (c *Client) roundTrip(ctx context.Context, message outbound) (*bytes.Buffer, error) {
	payload, err := jsonv1.Marshal(message)
	if err != nil {
		return nil, err
	}
	for moves := 0; ; moves++ {
		raw, err := c.current.Load().roundTrip(ctx, payload)
		id, moved := movedTo(err)
		if !moved || !c.options.Spread || moves == maxMoves {
			return raw, err
		}
		if err := c.follow(ctx, id); err != nil {
			return nil, fmt.Errorf("continuing a session that its server has handed over: %w", err)
		}
	}
}

// follow connects to a session that has moved.
func (c *Client) follow(ctx context.Context, id string) error {
	o := c.options
	o.SessionID = id
	for attempt := 1; ; attempt++ {
		next, err := openConnection(ctx, c.baseURL, o)
		if err == nil {
			c.current.Store(next)
			return nil
		}
		if attempt == maxFollows {
			return err
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return err
		}
	}
}

// movedTo returns where a session continues whose connection has ended with an error.
func movedTo(err error) (id string, moved bool) {
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok && closed.Code == protocol.CloseMoved {
		return protocol.MovedID(closed.Text), true
	}
	return "", false
}

func (c *connection) roundTrip(ctx context.Context, payload []byte) (*bytes.Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	// A server that refuses the session sends the reason before it closes: read it even if writing
	// fails.
	writeErr := c.WriteMessage(websocket.TextMessage, payload)
	raw, ok := <-c.answers
	if !ok {
		return nil, cmp.Or(ctx.Err(), errors.Join(writeErr, c.readErr))
	}
	return raw, nil
}

func serverError(data json.RawMessage) error {
	var wire struct{ Message, Code, Cause string }
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("decoding an error of the server: %w", err)
	}
	return &ServerError{Code: wire.Code, Message: wire.Message, Cause: wire.Cause, Data: data}
}

// Close sends the close message, waits for the server's close frame, so that the slot is free when
// Close returns, and closes the socket. A second Close does nothing.
func (c *Client) Close() error {
	var err error
	c.closing.Do(func() {
		conn, deadline := c.current.Load(), time.Now().Add(closeTimeout)
		_ = conn.SetWriteDeadline(deadline)
		if conn.WriteMessage(websocket.TextMessage, []byte(`{"type":"close"}`)) == nil {
			conn.closed.Store(true)
			_ = conn.SetReadDeadline(deadline)
			for range conn.answers { // until the close frame, or the connection is lost
				continue
			}
		}
		err = conn.Close()
	})
	return err
}
