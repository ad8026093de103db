package serve

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

const (
	// spareConnections is the number of a port's connections in addition to two per session, which
	// MCP clients need.
	spareConnections = 1024
	// opsConnections bounds the connections of the operations port.
	opsConnections = 256
)

// connections bounds the connections on which a port waits for a request or answers one. A further
// connection closes the longest waiting one, so that idle connections don't block clients.
// WebSockets don't count: sessions, refusals and relays have their own bounds.
type connections struct {
	limit int

	mu sync.Mutex
	// waiting are the connections without a complete header, the one that has waited longest first.
	waiting list.List
	// known has the elements in waiting, nil for a connection whose request is answered.
	known map[net.Conn]*list.Element
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, known: map[net.Conn]*list.Element{}}
}

// changed is the server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.known[conn]; element != nil {
		c.waiting.Remove(element)
	}
	switch state {
	case http.StateNew, http.StateIdle:
		c.known[conn] = c.waiting.PushBack(conn)
	case http.StateActive:
		c.known[conn] = nil
	default:
		delete(c.known, conn)
	}
	// A closed connection leaves by its own change of state.
	if oldest := c.waiting.Front(); len(c.known) > c.limit && state == http.StateNew && oldest != nil {
		c.known[c.waiting.Remove(oldest).(net.Conn)] = nil
		_ = oldest.Value.(net.Conn).Close()
	}
}
