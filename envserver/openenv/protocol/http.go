// Package protocol holds what the server and its clients share of the OpenEnv protocol: messages,
// headers, bounds and their encoding.
package protocol

import (
	"time"

	"github.com/csenv/csenv/envserver/score"
)

const (
	// PingInterval is the time between two pings of a server. It keeps proxies from closing a quiet
	// connection.
	PingInterval = 20 * time.Second
	// MaxSilence is how long a csenv server may send nothing on a socket: a living one pings.
	MaxSilence = 3 * PingInterval
	// MaxBody bounds, in bytes, the body of a plain HTTP request.
	MaxBody = 1 << 20
	// MaxReceipts bounds the receipts of one request, so that they fit into its body.
	MaxReceipts = 1000
)

// DirectHeader keeps a request at the server that receives it, whatever its value, so that nothing
// is forwarded twice. The value that peers send is the pool's proof; it gives no access.
const DirectHeader = "X-Csenv-Direct"

// Receipts is the body of POST /ledger.
type Receipts struct {
	Receipts []string `json:"receipts"`
}

// ReceiptsAnswer is the answer to POST /ledger.
type ReceiptsAnswer struct {
	// Taken is the number of episodes that the request added.
	Taken int `json:"taken"`
	// Ended are all episodes of the ledger.
	Ended score.IndexSet `json:"ended"`
}
