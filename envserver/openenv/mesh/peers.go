package mesh

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// peersTTL bounds the age of the list of peers, because the address of a lost peer may be
	// reused.
	peersTTL = 5 * time.Second
	// missTTL bounds the age of a list that lacks the server of an id.
	missTTL       = time.Second
	lookupTimeout = time.Second
	// capacityTTL bounds the age of the peers' free slots, capacityTimeout the time to read them,
	// and maxAsked the number of peers that are read at a time.
	capacityTTL     = time.Second
	capacityTimeout = 300 * time.Millisecond
	maxAsked        = 16
)

// findOwner returns the address of the peer that has the session, "" for this server or none.
func (m *Mesh) findOwner(ctx context.Context, id string) string {
	token, _, ok := strings.Cut(id, ".")
	if !ok || len(token) != tokenLength || token == m.token {
		return ""
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshPeers(ctx, peersTTL)
	if m.byToken[token] == "" {
		m.refreshPeers(ctx, missTTL)
	}
	return m.byToken[token]
}

// listPeers returns the addresses of the peers.
func (m *Mesh) listPeers(ctx context.Context) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refreshPeers(ctx, peersTTL)
	return slices.Collect(maps.Values(m.byToken))
}

// refreshPeers looks the peers up if the last lookup is older than maxAge. If that fails, it keeps
// the known ones.
func (m *Mesh) refreshPeers(ctx context.Context, maxAge time.Duration) {
	if !m.looked.IsZero() && time.Since(m.looked) < maxAge {
		return
	}
	// Other requests use the result, so the end of this one must not cancel the lookup.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
	defer cancel()
	addresses, err := m.Lookup(ctx)
	m.looked = time.Now()
	if err != nil {
		m.host.Log.Warn("Looking up the peers failed: using the peers of the last lookup", "error", err)
		return
	}
	m.byToken = make(map[string]string, len(addresses))
	for _, address := range addresses {
		if address != m.Self {
			m.byToken[m.tokenOf(address)] = address
		}
	}
}

// mostFree returns the untried peer with the most free slots, "" for none. It counts one of them as
// taken, because the caller passes a session on.
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

// askCapacity reads the free slots of the peers that answer in time.
func (m *Mesh) askCapacity(ctx context.Context) map[string]int64 {
	others := m.listPeers(ctx)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.addSlack(capacityTimeout))
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+capacityPath, nil)
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
		return 0, errors.New("the peer answered " + response.Status)
	}
	var c capacity
	err = json.NewDecoder(io.LimitReader(response.Body, 1024)).Decode(&c)
	return c.Free, err
}
