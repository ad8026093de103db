// Package protocol has the messages, headers and bounds of the OpenEnv protocol, for the server
// and its clients.
package protocol

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/csenv/csenv/envserver/score"
)

const (
	// PingInterval is the time between two pings of a server, which keep proxies from closing a
	// quiet connection.
	PingInterval = 20 * time.Second
	// MaxSilence is how long a csenv server may send nothing on a socket, not even a ping.
	MaxSilence = 3 * PingInterval
	// MaxBody bounds the body of a plain HTTP request, in bytes.
	MaxBody = 1 << 20
	// MaxReceipts bounds the receipts of one request, so that they fit into its body.
	MaxReceipts = 1000
)

// DirectHeader with any value keeps the server from forwarding the request, so that none is
// forwarded twice. Peers send the pool's proof as value, which replaces no token.
const DirectHeader = "X-Csenv-Direct"

// TokenHeader has the token for the operations port where Authorization doesn't arrive: the API
// server, which can pass a request on to a pod, keeps that header.
const TokenHeader = "X-Csenv-Token" //nolint:gosec // a name, not a token

// CredentialHeader has the run's credential in requests for its ledgers.
const CredentialHeader = "X-Csenv-Run-Credential" //nolint:gosec // a name, not a credential

// Receipts is the body of POST /ledger. With a pass score it opens the ledger even without
// receipts.
type Receipts struct {
	Receipts  []string `json:"receipts"`
	PassScore *int64   `json:"pass_score,omitempty"`
	// Plan is what PackPlan makes of the run's plan, which a server must know before it plays its
	// episodes.
	Plan []byte `json:"plan,omitempty"`
	// Used are the tokens that the shard's runners have used so far.
	Used score.Tokens `json:"used,omitzero"`
}

// MaxPlan bounds the JSON of a plan, in bytes: as much as a ConfigMap may contain.
const MaxPlan = 1 << 20

// PackPlan compresses the JSON of a plan.
func PackPlan(text []byte) ([]byte, error) {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compressing the plan: %w", err)
	}
	return packed.Bytes(), nil
}

// UnpackPlan reads what PackPlan wrote, which is untrusted.
func UnpackPlan(packed []byte) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), MaxPlan+1))
	if err == nil && len(text) > MaxPlan {
		err = fmt.Errorf("it has more than %d bytes", MaxPlan)
	}
	if err != nil {
		return nil, fmt.Errorf("unpacking the plan: %w", err)
	}
	return text, nil
}

// ReceiptsAnswer is the answer to POST /ledger.
type ReceiptsAnswer struct {
	// Taken is the number of episodes that the request added.
	Taken int `json:"taken"`
	// Ended has all episodes of the ledger.
	Ended score.IndexSet `json:"ended"`
	// Begun is the number of episodes of the ledger that were begun and are not in its sums: they
	// are being played, errored or abandoned.
	Begun int64 `json:"begun,omitempty"`
	// Turn is the number of the runner if the request had the plan. Its resets have it, which are
	// refused once another runner has begun the shard.
	Turn int64 `json:"turn,omitempty"`
	// Used are the most tokens that a runner of the shard has reported.
	Used score.Tokens `json:"used,omitzero"`
	// Lost has the episodes of the shard that have ended and are not in the ledger. They count
	// only by their receipts.
	Lost score.IndexSet `json:"lost,omitzero"`
}
