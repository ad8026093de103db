// Package mesh forwards requests between the servers of a pool.
//
// A session id names the server of its session. A request that reaches another server is forwarded
// once. A server without a free slot passes new sessions on to a peer. WebSockets are relayed as
// bytes.
package mesh

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/openenv/slots"
)

const (
	peerDialTimeout = 500 * time.Millisecond
	// maxRelays bounds the relayed sockets; one client has at most half of them. Each takes about
	// 25 KiB.
	maxRelays = 4096
	// capacityPath serves the number of free slots to peers.
	capacityPath = "/room"
	// tokenLength is the length of a server's name in session ids, in characters of 5 bits.
	tokenLength = 8
	// clientHeader is the client's address in a forwarded request.
	clientHeader = "X-Csenv-Client"
	// fullHeader declines a session that a peer has passed on.
	fullHeader = "X-Csenv-Full"
)

// Config configures how a server finds its peers. All servers of a pool have the same LedgerKey, by
// which they recognise each other.
type Config struct {
	// Lookup returns the addresses, IP:PORT, of the pool's servers, with or without this one.
	Lookup func(ctx context.Context) ([]string, error)
	// Self is this server's own address, IP:PORT.
	Self string
	// Slack multiplies the time in which peers have to answer, 0 for 1. Tests on busy machines need
	// it.
	Slack int
}

// addSlack lengthens a time by Slack.
func (c *Config) addSlack(d time.Duration) time.Duration { return d * time.Duration(max(c.Slack, 1)) }

// Validate reports what is missing. A nil Config is valid: the server has no peers.
func (c *Config) Validate() error {
	if c == nil {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Self); err != nil || c.Lookup == nil {
		return fmt.Errorf("invalid Peers: set Lookup, and Self (now %q) to this server's HOST:PORT", c.Self)
	}
	return nil
}

// Host is the mesh's view of its server.
type Host struct {
	Key   ed25519.PrivateKey
	Slots *slots.Slots
	// Free is the number of slots that are not taken.
	Free func() int
	// Admits reports whether the client of a request may open another session.
	Admits func(*http.Request) bool
	// Spawn runs a function in a goroutine that closing the server waits for. It reports false once
	// the server is closed, which ends Context.
	Spawn   func(func()) bool
	Context context.Context
	// Cut counts a relay that closing the server has ended.
	Cut func()
	// Take begins a session with the episode of a client that a peer hands over, and returns its
	// id.
	Take func(ctx context.Context, client, checkpoint string) (id string, err error)
	// GiveUp returns what this server knows of a shard that a peer plays from now on.
	GiveUp func(ledger.Key, string) (ledger.ShardState, error)
	// Keep takes a shard of a peer that ends.
	Keep func(ledger.Parcel) error
	// SendAway closes the socket of a session, whose client is to connect again.
	SendAway func(ctx context.Context, session string) error
	Metrics  prometheus.Registerer
	Log      *slog.Logger
}

// Mesh connects a server with its peers. A server without peers has the nil Mesh.
type Mesh struct {
	Config
	host   Host
	token  string // this server in session ids
	secret []byte
	// proof shows a peer that a request comes from a server of the pool.
	proof     string
	dialer    *net.Dialer
	transport *http.Transport
	errors    *log.Logger // of net/http
	relays    *semaphore.Weighted
	relayedOf *fairness.Budget // the relays by client
	relaying  sync.Map         // the peer that a session is relayed to, by the session's id

	forwarded *prometheus.CounterVec
	relayed   prometheus.Gauge

	mu      sync.Mutex
	byToken map[string]string
	looked  time.Time

	capacityMu sync.Mutex
	// free are the slots that peers reported, by address, minus the sessions passed on to them
	// since.
	free  map[string]int64
	asked time.Time
}

// New makes the mesh of a server, nil without a Config.
func New(c *Config, host Host) (*Mesh, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // most servers have no peers
	}
	secret, err := hkdf.Key(sha256.New, host.Key.Seed(), nil, "csenv peers", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the peers' key: %w", err)
	}
	m := &Mesh{
		Config: *c, host: host, secret: secret, dialer: &net.Dialer{Timeout: c.addSlack(peerDialTimeout)},
		errors: slog.NewLogLogger(host.Log.Handler(), slog.LevelWarn), relays: semaphore.NewWeighted(maxRelays),
		relayedOf: fairness.NewBudget(maxRelays, maxRelays/2),
	}
	m.token = m.tokenOf(c.Self)
	m.proof = m.deriveText("proof", "", sha256.Size)
	m.transport = &http.Transport{
		DialContext: m.dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: maxAsked,
		IdleConnTimeout: 30 * time.Second,
	}
	factory := promauto.With(host.Metrics)
	m.forwarded = factory.NewCounterVec(prometheus.CounterOpts{
		Name: "csenv_forwarded_total", Help: "Sockets and requests that were forwarded to a peer, by result: " +
			"done, declined (no free slot), unreachable, lost (while it answered).",
	}, []string{"kind", "result"})
	m.relayed = factory.NewGauge(prometheus.GaugeOpts{Name: "csenv_relayed_sockets",
		Help: "Sockets that the server relays between clients and peers."})
	return m, nil
}

// SessionPrefix begins the ids of this server's sessions, "" without peers.
func (m *Mesh) SessionPrefix() string {
	if m == nil {
		return ""
	}
	return m.token + "."
}

// deriveText derives a text from the kind and the value, which only servers of the pool can derive.
func (m *Mesh) deriveText(kind, value string, bytes int) string {
	mac := hmac.New(sha256.New, m.secret)
	_, _ = io.WriteString(mac, kind+"\n"+value)
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:bytes])
}

// tokenOf returns the name of a server in session ids. Servers find its address in their list of
// peers: clients learn no address, and ids can't direct requests to other hosts.
func (m *Mesh) tokenOf(address string) string { return m.deriveText("token", address, tokenLength*5/8) }

// isPeer reports whether the request comes from a peer.
func (m *Mesh) isPeer(r *http.Request) bool {
	return m != nil && subtle.ConstantTimeCompare([]byte(r.Header.Get(protocol.DirectHeader)), []byte(m.proof)) == 1
}

// HostOf returns the client's address without the port: the one that a peer reports for a forwarded
// request, or the remote address.
func (m *Mesh) HostOf(r *http.Request) string {
	if m.isPeer(r) {
		return r.Header.Get(clientHeader)
	}
	return remoteHost(r)
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// Handler forwards requests to the server of the session that they name. It passes new sessions on
// while this server has no free slot for the client.
func (m *Mesh) Handler(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(protocol.DirectHeader) != "" {
			m.answerDirectly(w, r, next)
			return
		}
		t := targetOf(r)
		switch {
		case t.opens:
			if m.openHere(w, r, next) || m.passOn(w, r, t) {
				return
			}
		case t.session != "":
			if owner := m.findOwner(r.Context(), t.session); owner != "" && m.forwardCall(w, r, t, owner) == nil {
				return
			}
		}
		// If the session's server has ended, this one answers that the session is unknown.
		t.rewindBody(r)
		next.ServeHTTP(w, r)
	})
}

// passOn lets a peer open the session. It reports false if none does.
func (m *Mesh) passOn(w http.ResponseWriter, r *http.Request, t target) bool {
	ctx, cancel := context.WithTimeout(r.Context(), m.addSlack(passOnTimeout))
	defer cancel()
	var tried []string
	for len(tried) < maxTries && ctx.Err() == nil {
		peer := m.mostFree(ctx, tried)
		if peer == "" {
			return false
		}
		if m.forwardCall(w, r, t, peer) == nil {
			return true
		}
		tried = append(tried, peer)
	}
	return false
}

// answerDirectly answers a request that must not be forwarded. It opens or declines a session that
// a peer passes on.
func (m *Mesh) answerDirectly(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !m.isPeer(r) || !targetOf(r).opens {
		next.ServeHTTP(w, r)
		return
	}
	if !m.openHere(w, r, next) {
		w.Header().Set(fullHeader, "true")
		protocol.WriteDetail(w, http.StatusServiceUnavailable, m.host.Slots.Refusal().Error())
	}
}

// WithPeers also serves what peers ask for. They send the pool's proof instead of a token.
func (m *Mesh) WithPeers(next http.Handler) http.Handler {
	if m == nil {
		return next
	}
	handlers := map[string]http.HandlerFunc{capacityPath: m.serveCapacity, handOverPath: m.serveHandOver,
		sendAwayPath: m.serveSendAway, shardPath: m.serveShard, parcelPath: m.serveParcel}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler := handlers[r.URL.Path]
		switch {
		case handler == nil:
			next.ServeHTTP(w, r)
		case !m.isPeer(r):
			protocol.WriteDetail(w, http.StatusForbidden, "only servers of the pool may use this path")
		default:
			handler(w, r)
		}
	})
}

// serveHandOver takes an episode of a peer.
func (m *Mesh) serveHandOver(w http.ResponseWriter, r *http.Request) {
	body, ok := readHandedOver(w, r)
	if !ok {
		return
	}
	if !m.reserveSlot(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := m.host.Take(r.Context(), body.Client, body.Checkpoint)
		if err != nil {
			protocol.WriteDetail(w, http.StatusConflict, err.Error())
			return
		}
		protocol.WriteJSON(w, http.StatusOK, handedOver{SessionID: id})
	})) {
		protocol.WriteDetail(w, http.StatusServiceUnavailable, m.host.Slots.Refusal().Error())
	}
}

// serveSendAway closes the socket of a session that a peer relays.
func (m *Mesh) serveSendAway(w http.ResponseWriter, r *http.Request) {
	body, ok := readHandedOver(w, r)
	if !ok {
		return
	}
	if err := m.host.SendAway(r.Context(), body.SessionID); err != nil {
		protocol.WriteDetail(w, http.StatusConflict, err.Error())
		return
	}
	protocol.WriteJSON(w, http.StatusOK, handedOver{})
}

func (m *Mesh) serveCapacity(w http.ResponseWriter, _ *http.Request) {
	var c capacity
	if m.host.Slots.Closed() == nil {
		c.Free = int64(m.host.Free())
	}
	protocol.WriteJSON(w, http.StatusOK, c)
}

// WaitDrained waits until no socket is relayed, and prevents further relays.
func (m *Mesh) WaitDrained(ctx context.Context) error {
	if m == nil {
		return nil
	}
	if err := m.relays.Acquire(ctx, maxRelays); err != nil {
		return fmt.Errorf("waiting for relayed connections to end: %w", err)
	}
	return nil
}

// openHere lets next open a session. It reports false if no slot is free for the client.
func (m *Mesh) openHere(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	return m.host.Admits(r) && m.reserveSlot(w, r, next)
}

// reserveSlot lets next use a free slot. It reports false if there is none.
func (m *Mesh) reserveSlot(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	reservation := m.host.Slots.Reserve()
	if reservation == nil {
		return false
	}
	defer reservation.Release()
	next.ServeHTTP(w, r.WithContext(reservation.NewContext(r.Context())))
	return true
}

var (
	errDeclined    = errors.New("the peer has no free slot")
	errUnreachable = errors.New("the peer can't be reached")
)
