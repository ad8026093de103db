package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

const (
	// handOverPath takes an episode from a peer, sendAwayPath closes the socket of a session that a
	// peer relays.
	handOverPath = "/handover"
	sendAwayPath = "/sendaway"
	// maxHandOver bounds the body of a request and of an answer, in bytes.
	maxHandOver = 1 << 20
	// maxSent bounds the requests at a time. One whose client doesn't read takes a second.
	maxSent = 256
)

// handedOver is the body of a request: an episode and its client, or a session.
type handedOver struct {
	Client     string `json:"client,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	SessionID  string `json:"session_id,omitempty"`
}

// HandOver lets a peer continue the episode of a client, and returns the id of its session there.
func (m *Mesh) HandOver(ctx context.Context, client, checkpoint string) (id string, err error) {
	if m == nil {
		return "", errors.New("this server has no peers")
	}
	err = errDeclined
	for tried := []string{}; len(tried) < maxTries && ctx.Err() == nil; {
		peer := m.mostFree(ctx, tried)
		if peer == "" {
			break
		}
		var answer handedOver
		answer, err = m.postEpisode(ctx, peer, handOverPath, handedOver{Client: client, Checkpoint: checkpoint})
		if err == nil {
			return answer.SessionID, nil
		}
		tried = append(tried, peer)
	}
	return "", err
}

// SendAway asks the peers of the relayed sockets to close them, so that the clients connect again.
func (m *Mesh) SendAway(ctx context.Context) {
	if m == nil {
		return
	}
	var sending errgroup.Group
	sending.SetLimit(maxSent)
	m.relaying.Range(func(session, peer any) bool {
		sending.Go(func() error {
			id, address := session.(string), peer.(string) //nolint:forcetypeassert // see keepRelay
			if _, err := m.postEpisode(ctx, address, sendAwayPath, handedOver{SessionID: id}); err != nil {
				m.host.Log.Warn("A relayed session was not sent away", "peer", address, "error", err)
			}
			return nil
		})
		return true
	})
	_ = sending.Wait()
}

// postEpisode sends a request to a peer.
func (m *Mesh) postEpisode(ctx context.Context, peer, path string, body handedOver) (answer handedOver, err error) {
	got, err := m.sendBody(ctx, peer, path, body, maxHandOver)
	if err == nil {
		err = json.Unmarshal(got, &answer)
	}
	return answer, err
}

// readHandedOver reads the body of a peer's request. It answers an invalid one and reports false.
func readHandedOver(w http.ResponseWriter, r *http.Request) (body handedOver, ok bool) {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxHandOver)).Decode(&body)
	if err != nil {
		protocol.WriteDetail(w, http.StatusBadRequest, "reading the body: "+err.Error())
	}
	return body, err == nil
}
