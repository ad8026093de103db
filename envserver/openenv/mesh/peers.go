package mesh

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"golang.org/x/sync/errgroup"
)

const (
	// peersTTL is how old the list of peers may be before it is used: the address of a peer that is
	// gone may be reused soon.
	peersTTL = 5 * time.Second
	// missTTL is how old it may be when an id names a server that isn't in it.
	missTTL = time.Second
	// lookupTimeout bounds one lookup of the peers.
	lookupTimeout = time.Second
	// capacityTTL is how old the peers' free slots may be, capacityTimeout bounds reading them, and
	// maxAsked is the number of peers that are read at a time.
	capacityTTL     = time.Second
	capacityTimeout = 300 * time.Millisecond
	maxAsked        = 16
)

// owner is the address of the peer that has the session, "" for this server or none.
func (m *Mesh) owner(ctx context.Context, id string) string {
	token, _, ok := strings.Cut(id, ".")
	if !ok || len(token) != tokenLength || token == m.token {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refresh(ctx, peersTTL)
	if m.byToken[token] == "" {
		m.refresh(ctx, missTTL)
	}
	return m.byToken[token]
}

// others are the addresses of the peers.
func (m *Mesh) others(ctx context.Context) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refresh(ctx, peersTTL)
	addresses := make([]string, 0, len(m.byToken))
	for _, address := range m.byToken {
		addresses = append(addresses, address)
	}
	return addresses
}

// refresh looks the peers up if that was longer ago than maxAge. When it fails, the ones that were
// known stay.
func (m *Mesh) refresh(ctx context.Context, maxAge time.Duration) {
	if !m.looked.IsZero() && time.Since(m.looked) < maxAge {
		return
	}
	// Other requests use the result too: the end of this one must not cancel the lookup.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	addresses, err := m.Lookup(ctx)
	m.looked = time.Now()
	if err != nil {
		m.host.Log.Warn("Looking up the peers failed: using those of the last lookup", "error", err)
		return
	}
	m.byToken = make(map[string]string, len(addresses))
	for _, address := range addresses {
		if address != m.Self {
			m.byToken[m.tokenOf(address)] = address
		}
	}
}

// mostFree is the peer with the most free slots that hasn't been tried, "" for none. It counts one
// of them as taken: the caller passes a session on to the peer.
func (m *Mesh) mostFree(ctx context.Context, tried []string) string {
	m.capacityMu.Lock()
	defer m.capacityMu.Unlock()
	if m.asked.IsZero() || time.Since(m.asked) >= capacityTTL {
		m.free = m.askCapacity(ctx)
		m.asked = time.Now()
	}
	best := ""
	for address, free := range m.free {
		if free > 0 && !slices.Contains(tried, address) &&
			(best == "" || cmp.Or(cmp.Compare(free, m.free[best]), strings.Compare(best, address)) > 0) {
			best = address
		}
	}
	if best != "" {
		m.free[best]--
	}
	return best
}

// askCapacity reads the free slots of all peers, 0 for those that don't answer in time.
func (m *Mesh) askCapacity(ctx context.Context) map[string]int64 {
	others := m.others(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), capacityTimeout)
	defer cancel()
	var mu sync.Mutex
	free := map[string]int64{}
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for _, address := range others {
		asking.Go(func() error {
			n, err := m.capacityOf(ctx, address)
			if err != nil {
				m.host.Log.Debug("Reading a peer's free slots failed", "peer", address, "error", err)
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

// capacity is the answer of capacityPath.
type capacity struct {
	Free int64 `json:"free"`
}

func (m *Mesh) capacityOf(ctx context.Context, address string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.scheme+"://"+address+capacityPath, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set(protocol.DirectHeader, m.proof)
	response, err := m.transport.RoundTrip(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, errors.New("it answered " + response.Status)
	}
	var c capacity
	err = json.NewDecoder(io.LimitReader(response.Body, 1024)).Decode(&c)
	return c.Free, err
}

// dial connects to a peer.
func (m *Mesh) dial(ctx context.Context, address string) (net.Conn, error) {
	if m.TLS == nil {
		return m.dialer.DialContext(ctx, "tcp", address)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*peerDialTimeout)
	defer cancel()
	return (&tls.Dialer{NetDialer: m.dialer, Config: m.TLS}).DialContext(ctx, "tcp", address)
}
