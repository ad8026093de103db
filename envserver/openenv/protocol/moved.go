package protocol

import (
	"strings"

	"github.com/gorilla/websocket"
)

// CloseMoved is the close code of a socket whose client should connect again: WebSocket's "service
// restart". A message that has no answer was not processed.
const CloseMoved = websocket.CloseServiceRestart

const movedID = "session_id="

// MovedTo returns the reason of CloseMoved for a session that continues under an id, or with id ""
// for a client that should begin another one.
func MovedTo(id string) string {
	if id == "" {
		return "the server is shutting down: connect again"
	}
	return "the server is shutting down: connect again with " + movedID + id
}

// MovedID returns the id in a reason of CloseMoved, "" for none.
func MovedID(reason string) string {
	_, id, _ := strings.Cut(reason, movedID)
	return id
}
