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
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// shardPath gives a peer the state of a shard of a run.
	shardPath = "/shard"
	// shardTimeout bounds the time in which all peers have to answer.
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
// up. The episodes of a peer that doesn't answer are missing.
func (m *Mesh) AskShard(ctx context.Context, key ledger.Key, plan string) []ledger.ShardState {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, m.slack(shardTimeout))
	defer cancel()
	var mu sync.Mutex
	var states []ledger.ShardState
	var asking errgroup.Group
	asking.SetLimit(maxAsked)
	for _, address := range m.others(ctx) {
		asking.Go(func() error {
			state, err := m.askShard(ctx, address, wantedShard{key.Run, key.Shard, plan})
			if err != nil {
				m.host.Log.Warn("A peer was not asked for the ledger of a shard", "peer", address, "run", key.Run,
					"shard", key.Shard, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			states = append(states, state)
			return nil
		})
	}
	_ = asking.Wait()
	return states
}

func (m *Mesh) askShard(ctx context.Context, peer string, wanted wantedShard) (state ledger.ShardState, err error) {
	body, err := json.Marshal(wanted)
	if err != nil {
		return state, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+peer+shardPath, bytes.NewReader(body))
	if err != nil {
		return state, err
	}
	request.Header.Set(protocol.DirectHeader, m.proof)
	response, err := m.transport.RoundTrip(request)
	if err != nil {
		return state, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return state, fmt.Errorf("%w: the peer answered %s", errUnreachable, response.Status)
	}
	err = json.NewDecoder(io.LimitReader(response.Body, maxShardState)).Decode(&state)
	return state, err
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
