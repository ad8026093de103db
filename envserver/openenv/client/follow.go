package client

import (
	"context"
	"errors"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/gorilla/websocket"
)

const (
	// maxMoves bounds how often one message is sent again because the session has moved.
	maxMoves = 8
	// maxFollows bounds the attempts to connect to it, between which followPause passes: the
	// address may still lead to the server that has handed it over.
	maxFollows  = 20
	followPause = 250 * time.Millisecond
)

// follow connects to a session that has moved.
func (c *Client) follow(ctx context.Context, id string) error {
	o := c.options
	o.SessionID = id
	for attempt := 1; ; attempt++ {
		next, err := connect(ctx, c.baseURL, o)
		if err == nil {
			c.current.Store(next)
			return nil
		}
		if attempt == maxFollows {
			return err
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
			return err
		}
	}
}

// movedTo returns where a session continues whose connection has ended with an error.
func movedTo(err error) (id string, moved bool) {
	if closed, ok := errors.AsType[*websocket.CloseError](err); ok && closed.Code == protocol.CloseMoved {
		return protocol.MovedID(closed.Text), true
	}
	return "", false
}
