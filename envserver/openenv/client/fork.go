package client

import (
	"context"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// ForkError is the server's refusal to fork, save or restore an episode. The session goes on.
type ForkError struct {
	// Reason is "" for a failure that has none in the protocol, which Message describes.
	Reason  protocol.ForkRefusal
	Message string
}

func (e *ForkError) Error() string { return e.Message }

// Fork copies the session into n new ones, all or none, and returns their ids. Each plays on
// independently, and has the same future for the same actions. It ends when it is idle, unless a
// client attaches to it. A refusal is a *ForkError.
func (c *Client) Fork(ctx context.Context, n int) (sessionIDs []string, err error) {
	answer, err := callMethod[struct {
		SessionIDs []string `json:"session_ids"`
	}](ctx, c, protocol.ForkMethod, map[string]any{"n": n})
	return answer.SessionIDs, err
}

// Attach opens a session that Fork returned, with the options of this client. It ends with the
// returned client. The first message of one that has ended fails with SESSION_ERROR.
func (c *Client) Attach(ctx context.Context, sessionID string) (*Client, error) {
	o := c.options
	o.SessionID = sessionID
	return Dial(ctx, c.baseURL, o)
}

// Checkpoint returns the episode as text that every server of the pool can restore, also when this
// one is gone. A refusal is a *ForkError.
func (c *Client) Checkpoint(ctx context.Context) (string, error) {
	answer, err := callMethod[struct {
		Checkpoint string `json:"checkpoint"`
	}](ctx, c, protocol.CheckpointMethod, nil)
	return answer.Checkpoint, err
}

// Restore continues a saved episode in a session that plays none, and returns its last observation.
// A refusal is a *ForkError.
func (c *Client) Restore(ctx context.Context, checkpoint string) (Observation, error) {
	answer, err := callMethod[struct {
		Result *observed `json:"result"`
	}](ctx, c, protocol.RestoreMethod, map[string]any{"checkpoint": checkpoint})
	if err != nil {
		return Observation{}, err
	}
	return answer.Result.read(protocol.RestoreMethod)
}

// callMethod calls a JSON-RPC method of the session.
func callMethod[T any](ctx context.Context, c *Client, method string, params map[string]any) (result T, err error) {
	request := struct {
		Version string         `json:"jsonrpc"`
		ID      int            `json:"id"`
		Method  string         `json:"method"`
		Params  map[string]any `json:"params,omitempty"`
	}{"2.0", 1, method, params}
	answer, err := exchangeMessage[struct {
		Result T `json:"result"`
		Error  *struct {
			Message string               `json:"message"`
			Data    protocol.ForkRefused `json:"data"`
		} `json:"error"`
	}](ctx, c, outbound{Type: string(protocol.MCPMessage), Data: request}, string(protocol.MCPMessage))
	if err == nil && answer.Error != nil {
		err = &ForkError{Reason: answer.Error.Data.Reason, Message: answer.Error.Message}
	}
	return answer.Result, err
}
