package openenv

import (
	"fmt"
	"time"

	"github.com/gorilla/websocket"

	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// deadPeerAfter bounds the time without any frame, not even a pong. It is minutes because a
// trainer's event loop blocks while its model generates. TCP's keepalive detects lost hosts sooner.
const deadPeerAfter = 10 * time.Minute

// ending is why a session ends.
type ending int

// The zero value is none of them.
const (
	endClosed ending = iota + 1
	endLost
	endDead
	endTooLarge
	endSlow
	endIdle
	endUnused
	endMaxDuration
	endDrained
	endReleased
	endMoved
	endFactory
)

// endings says what an ending is in the metrics and what it means for the session's socket.
var endings = [...]struct {
	// result is the label of csenv_sessions_total.
	result string
	// code is the close frame's, 0 for a connection that is closed without one.
	code int
	// kept is true if a session that its socket owned continues without it, for SessionGrace.
	kept bool
	// told is what the client's next session says of the end, if the ending has no details.
	told string
}{
	endClosed: {result: "closed", code: websocket.CloseNormalClosure},
	endLost:   {result: "lost", kept: true, told: "its connection was lost"},
	endDead: {result: "dead_peer", kept: true,
		told: fmt.Sprintf("its client sent nothing, not even an answer to a ping, for %v", deadPeerAfter)},
	endTooLarge: {result: "too_large", code: websocket.CloseMessageTooBig},
	endSlow: {result: "slow", code: websocket.CloseTryAgainLater, kept: true,
		told: "a message of its client arrived too slowly while others waited"},
	endIdle:        {result: "idle", code: websocket.CloseGoingAway},
	endUnused:      {result: "unused", code: websocket.CloseGoingAway},
	endMaxDuration: {result: "max_duration", code: websocket.CloseGoingAway},
	endDrained:     {result: "drained", code: websocket.CloseGoingAway},
	endReleased:    {result: "released", code: protocol.CloseMoved},
	endMoved:       {result: "moved", code: protocol.CloseMoved},
	endFactory:     {result: "factory_error"},
}
