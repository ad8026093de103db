package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// shardPath gives a peer the state of a shard of a run.
	shardPath = "/shard"
	// parcelPath takes the state of a shard from a server that ends.
	parcelPath = "/parcel"
	// shardTimeout bounds the time in which all peers have to answer, or to take parcels.
	shardTimeout = 3 * time.Second
	// maxShardState bounds an answer, in bytes.
	maxShardState = 8 << 20
)

// wantedShard is the body of a request.
type wantedShard struct {
	Run   string `json:"run"`
	Shard int    `json:"shard"`
	Plan  string `json:"plan"`
}

// AskShard returns what the peers know of a shard of the plan with a fingerprint, which they give
// up. It reports whether one may know more: it didn't answer, although a server may be there.
func (m *Mesh) AskShard(ctx context.Context, key ledger.Key, plan string) (states []ledger.ShardState, silent bool) {
	if m == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, m.addSlack(shardTimeout))
	defer cancel()
	var mu sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for _, address := range m.listPeers(ctx) {
		asking.Go(func() error {
			state, err := m.askShard(ctx, address, wantedShard{key.Run, key.Shard, plan})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				silent = silent || !errors.Is(err, errRefused) && !errors.Is(err, syscall.ECONNREFUSED)
				m.host.Log.Warn("A peer was not asked for the ledger of a shard", "peer", address, "run", key.Run,
					"shard", key.Shard, "error", err)
				return nil
			}
			states = append(states, state)
			return nil
		})
	}
	_ = asking.Wait()
	return states, silent
}

// errRefused means that a peer refuses a request, for example because it is of an earlier release.
var errRefused = errors.New("the peer refuses")

func (m *Mesh) askShard(ctx context.Context, peer string, wanted wantedShard) (state ledger.ShardState, err error) {
	answer, err := m.sendBody(ctx, peer, shardPath, wanted, maxShardState)
	if err == nil {
		err = json.Unmarshal(answer, &state)
	}
	return state, err
}

// GiveParcels gives shards to a peer, or to another one if that fails.
func (m *Mesh) GiveParcels(ctx context.Context, parcels []ledger.Parcel) {
	if m == nil || len(parcels) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.addSlack(shardTimeout))
	defer cancel()
	var tried []string
	for i := 0; i < len(parcels); {
		peer := m.mostFree(ctx, tried)
		if peer == "" {
			m.host.Log.Warn("No peer took what has ended of the runs' shards", "shards", len(parcels)-i)
			return
		}
		for ; i < len(parcels); i++ {
			if _, err := m.sendBody(ctx, peer, parcelPath, parcels[i], maxShardState); err != nil {
				m.host.Log.Warn("A peer did not take a shard", "peer", peer, "run", parcels[i].Run, "error", err)
				tried = append(tried, peer)
				break
			}
		}
	}
}

// sendBody posts a body to a peer and returns at most limit bytes of the answer.
func (m *Mesh) sendBody(ctx context.Context, peer, path string, body any, limit int64) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+peer+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	request.Header.Set(protocol.DirectHeader, m.proof)
	response, err := m.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, limit))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("the peer answered %s: %.200s", response.Status, answer)
		if response.StatusCode < http.StatusInternalServerError {
			err = errors.Join(errRefused, err)
		}
	}
	return answer, err
}

// serveParcel takes a shard.
func (m *Mesh) serveParcel(w http.ResponseWriter, r *http.Request) {
	var parcel ledger.Parcel
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxShardState)).Decode(&parcel)
	if err == nil {
		err = m.host.Keep(parcel)
	}
	if err != nil {
		protocol.WriteDetail(w, http.StatusBadRequest, "taking a shard: "+err.Error())
		return
	}
	protocol.WriteJSON(w, http.StatusOK, struct{}{})
}

// serveShard gives up a shard.
func (m *Mesh) serveShard(w http.ResponseWriter, r *http.Request) {
	var wanted wantedShard
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHandOver)).Decode(&wanted)
	if err != nil || wanted.Shard < 0 {
		protocol.WriteDetail(w, http.StatusBadRequest, errors.Join(errors.New("reading the body"), err).Error())
		return
	}
	state, err := m.host.GiveUp(ledger.Key{Run: wanted.Run, Shard: wanted.Shard}, wanted.Plan)
	if err != nil {
		protocol.WriteDetail(w, http.StatusInternalServerError, err.Error())
		return
	}
	protocol.WriteJSON(w, http.StatusOK, state)
}
