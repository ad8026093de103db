package openenv

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

const (
	// peersTTL is how old the list of peers may be before it is used: the address of one that is
	// gone may soon be somebody else's.
	peersTTL = 5 * time.Second
	// missTTL is how old it may be when an id names a server that isn't in it.
	missTTL = time.Second
	// lookupWait bounds one lookup of the peers.
	lookupWait = time.Second
	// roomTTL is how old the peers' answers may be when they are asked for room, and roomWait
	// bounds the asking.
	roomTTL  = time.Second
	roomWait = 300 * time.Millisecond
	// maxAsked bounds the peers that are asked for room at a time.
	maxAsked = 16
	// peerDialWait bounds the dialling of a peer.
	peerDialWait = 500 * time.Millisecond
	// maxRelays bounds the sockets that are passed on.
	maxRelays = 16384
	// roomPath is where peers ask each other for room.
	roomPath = "/room"
	// tokenLength is the number of characters by which a session id names a server: 40 bits.
	tokenLength = 8
)

// Peers says how a server finds the others of its pool. All of them have one LedgerKey, by which
// they know each other.
type Peers struct {
	// Lookup returns the addresses, IP:PORT, of the pool's servers, with or without this one.
	Lookup func(ctx context.Context) ([]string, error)
	// Self is this server's own address, IP:PORT.
	Self string
	// TLS is for connections to peers, nil for plain text.
	TLS *tls.Config
}

// peers finds the servers that sessions live on, and those that have room.
//
// A session id begins with a token of its server's address, made with a key that only the pool has:
// every server can tell from the list of addresses which one is meant, and nobody else learns an
// address. A token that is no peer's leads nowhere, so that ids can't send requests to other
// places.
type peers struct {
	lookup func(ctx context.Context) ([]string, error)
	self   string
	token  string
	secret []byte
	// proof is what peers show each other.
	proof     string
	scheme    string
	dialer    *net.Dialer
	tls       *tls.Config
	transport *http.Transport
	log       *slog.Logger
	// errors is where net/http writes what it can't return.
	errors *log.Logger
	// relays has a place for each socket that is passed on.
	relays *semaphore.Weighted

	mu      sync.Mutex
	byToken map[string]string
	looked  time.Time

	roomMu sync.Mutex
	// free are the slots that the peers had when they were asked, less the sessions that were
	// passed on to them since, by address.
	free  map[string]int64
	asked time.Time
}

// validate says what is missing.
func (c *Peers) validate() error {
	if c == nil {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Self); err != nil || c.Lookup == nil {
		return fmt.Errorf("Peers needs a Lookup and this server's own address as HOST:PORT, not %q", c.Self)
	}
	return nil
}

// newPeers returns nil for a server that has none.
func newPeers(c *Peers, key ed25519.PrivateKey, logger *slog.Logger) (*peers, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // a server without peers is the usual one
	}
	secret, err := hkdf.Key(sha256.New, key.Seed(), nil, "csenv peers", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("deriving the peers' key: %w", err)
	}
	p := &peers{
		lookup: c.Lookup, self: c.Self, secret: secret, scheme: "http", tls: c.TLS, log: logger,
		errors: slog.NewLogLogger(logger.Handler(), slog.LevelWarn), relays: semaphore.NewWeighted(maxRelays),
		dialer: &net.Dialer{Timeout: peerDialWait},
	}
	p.token = p.tokenOf(c.Self)
	p.proof = p.keyed("proof", "", sha256.Size)
	if c.TLS != nil {
		p.scheme = "https"
	}
	p.transport = &http.Transport{
		DialContext: p.dialer.DialContext, TLSClientConfig: c.TLS, TLSHandshakeTimeout: peerDialWait,
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxAsked, IdleConnTimeout: 30 * time.Second,
	}
	return p, nil
}

// keyed is a text of the given number of bytes that only the pool can make from the kind and the
// value.
func (p *peers) keyed(kind, value string, bytes int) string {
	mac := hmac.New(sha256.New, p.secret)
	_, _ = io.WriteString(mac, kind+"\n"+value)
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(mac.Sum(nil)[:bytes])
}

func (p *peers) tokenOf(address string) string { return p.keyed("token", address, tokenLength*5/8) }

// vouches reports whether the request comes from a peer.
func (p *peers) vouches(r *http.Request) bool {
	return p != nil && subtle.ConstantTimeCompare([]byte(r.Header.Get(protocol.DirectHeader)), []byte(p.proof)) == 1
}

// owner is the address of the peer that has the session, "" for this server or none.
func (p *peers) owner(ctx context.Context, id string) string {
	token, _, ok := strings.Cut(id, ".")
	if !ok || len(token) != tokenLength || token == p.token {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh(ctx, peersTTL)
	if p.byToken[token] == "" {
		p.refresh(ctx, missTTL)
	}
	return p.byToken[token]
}

// others are the addresses of the peers.
func (p *peers) others(ctx context.Context) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refresh(ctx, peersTTL)
	addresses := make([]string, 0, len(p.byToken))
	for _, address := range p.byToken {
		addresses = append(addresses, address)
	}
	return addresses
}

// refresh looks the peers up if that was longer ago than maxAge. When it fails, the ones that were
// known stay.
func (p *peers) refresh(ctx context.Context, maxAge time.Duration) {
	if !p.looked.IsZero() && time.Since(p.looked) < maxAge {
		return
	}
	// What one client asked for serves others too: its going must not leave them without an answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupWait)
	defer cancel()
	addresses, err := p.lookup(ctx)
	p.looked = time.Now()
	if err != nil {
		p.log.Warn("The peers can't be looked up: the ones known before are used", "error", err)
		return
	}
	p.byToken = make(map[string]string, len(addresses))
	for _, address := range addresses {
		if address != p.self {
			p.byToken[p.tokenOf(address)] = address
		}
	}
}

// roomiest is the peer with the most free slots that hasn't been tried, "" for none. It counts on
// the caller to pass a session on to it.
func (p *peers) roomiest(ctx context.Context, tried []string) string {
	p.roomMu.Lock()
	defer p.roomMu.Unlock()
	if p.asked.IsZero() || time.Since(p.asked) >= roomTTL {
		p.free = p.askRoom(ctx)
		p.asked = time.Now()
	}
	best := ""
	for address, free := range p.free {
		if free > 0 && !slices.Contains(tried, address) &&
			(best == "" || cmp.Or(cmp.Compare(free, p.free[best]), strings.Compare(best, address)) > 0) {
			best = address
		}
	}
	if best != "" {
		p.free[best]--
	}
	return best
}

// askRoom asks all peers how many slots they have free. Those that don't answer in time have none.
func (p *peers) askRoom(ctx context.Context) map[string]int64 {
	others := p.others(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roomWait)
	defer cancel()
	var mu sync.Mutex
	free := map[string]int64{}
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for _, address := range others {
		asking.Go(func() error {
			n, err := p.roomOf(ctx, address)
			if err != nil {
				p.log.Debug("A peer doesn't say how much room it has", "peer", address, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			free[address] = n
			return nil
		})
	}
	_ = asking.Wait()
	return free
}

// room answers a peer that asks for room.
type room struct {
	Free int64 `json:"free"`
}

func (p *peers) roomOf(ctx context.Context, address string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.scheme+"://"+address+roomPath, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set(protocol.DirectHeader, p.proof)
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New("it answered " + response.Status)
	}
	var r room
	err = json.NewDecoder(io.LimitReader(response.Body, 1024)).Decode(&r)
	return r.Free, err
}

// dial connects to a peer.
func (p *peers) dial(ctx context.Context, address string) (net.Conn, error) {
	if p.tls == nil {
		return p.dialer.DialContext(ctx, "tcp", address)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*peerDialWait)
	defer cancel()
	return (&tls.Dialer{NetDialer: p.dialer, Config: p.tls}).DialContext(ctx, "tcp", address)
}

// settle waits until no socket is passed on any more. From then on none is.
func (p *peers) settle(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.relays.Acquire(ctx, maxRelays); err != nil {
		return fmt.Errorf("waiting for the connections that are passed on to end: %w", err)
	}
	return nil
}
