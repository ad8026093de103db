package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/csenv/csenv/envserver/openenv/client"
)

// knownActions are actions of csenv's environments that don't end an episode.
var knownActions = []json.RawMessage{
	json.RawMessage(`{"action_type":"search_knowledge_base","query":"refund"}`),
	json.RawMessage(`{"action_type":"check_order_status"}`),
}

// InferAction returns an action that a csenv server accepts, by trying actions in one session. If
// the server refuses all of them, the error is a *client.ServerError.
func InferAction(ctx context.Context, url string, reset json.RawMessage, o client.Options) (json.RawMessage, error) {
	return firstPlayed(ctx, url, reset, knownActions, o)
}

// TryAction plays the reset and one action, which the server must accept.
func TryAction(ctx context.Context, url string, reset, action json.RawMessage, o client.Options) error {
	_, err := firstPlayed(ctx, url, reset, []json.RawMessage{action}, o)
	return err
}

// firstPlayed returns the first action that the server plays after the reset.
func firstPlayed(ctx context.Context, url string, reset json.RawMessage, actions []json.RawMessage,
	o client.Options) (json.RawMessage, error) {
	o.Spread = true
	session, err := client.Dial(ctx, url, o)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	if len(reset) == 0 {
		reset = json.RawMessage("{}")
	}
	var refusal error
	for _, action := range actions {
		if _, err := session.Reset(ctx, reset); err != nil {
			return nil, err
		}
		_, err := session.Step(ctx, action)
		refused, ok := errors.AsType[*client.ServerError](err)
		if !ok {
			return action, err
		}
		refusal = fmt.Errorf("the server refuses the action %.200s: %w", action, refused)
	}
	return nil, refusal
}
