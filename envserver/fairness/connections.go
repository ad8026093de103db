package fairness

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// fewWaiting is the number of waiting connections that a client keeps while another one has more
// connections. A browser or an HTTP client keeps about as many.
const fewWaiting = 8

// connections bounds the connections of an HTTP server on which it waits for a request or answers
// one. Above the limit it closes one for each further one, of the client that has most: one whose
// request is unfinished, else one between two requests, else one whose request is answered.
//
// Hijacked connections, such as WebSockets, don't count.
type connections struct {
	limit int

	mu      sync.Mutex
	known   map[net.Conn]*connection
	clients map[string]*clientConnections
}

// clientConnections are the connections of one client, by what they wait for. In each list, the one
// that has waited longest is the first.
type clientConnections struct {
	// unfinished have no request yet, or one whose header or body is incomplete.
	unfinished, idle, answering list.List
}

func (c *clientConnections) len() int { return c.unfinished.Len() + c.idle.Len() + c.answering.Len() }

// connection is a counted connection and its place in a list of its client.
type connection struct {
	net.Conn
	client string
	list   *list.List
	place  *list.Element
}

// BoundConnections lets a server have at most a number of connections. Call it once its Handler is
// set, before it serves.
func BoundConnections(server *http.Server, limit int) {
	c := &connections{limit: limit, known: map[net.Conn]*connection{}, clients: map[string]*clientConnections{}}
	server.ConnState = c.changed
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, conn)
	}
	server.Handler = c.awaitBodies(server.Handler)
}

// changed is the server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch at := c.known[conn]; state {
	case http.StateNew:
		c.admit(conn)
	case http.StateIdle:
		c.move(at, idle)
	case http.StateActive:
		c.move(at, answering)
	default:
		c.forget(at)
	}
}

// admit counts a new connection, after it has closed one if there are too many.
func (c *connections) admit(conn net.Conn) {
	if len(c.known) >= c.limit {
		surplus := c.surplus()
		c.forget(surplus)
		_ = surplus.Close()
	}
	at := &connection{Conn: conn, client: ClientAt(conn.RemoteAddr().String())}
	of := c.clients[at.client]
	if of == nil {
		of = &clientConnections{}
		c.clients[at.client] = of
	}
	c.known[conn] = at
	at.list = &of.unfinished
	at.place = at.list.PushBack(at)
}

// surplus chooses the connection to close.
func (c *connections) surplus() *connection {
	for _, waiting := range []func(*clientConnections) *list.List{unfinished, idle} {
		most := c.most(func(of *clientConnections) int { return waiting(of).Len() })
		if waiting(most).Len() > fewWaiting {
			return waiting(most).Front().Value.(*connection) //nolint:forcetypeassert // no list has other values
		}
	}
	of := c.most((*clientConnections).len)
	place := cmp.Or(of.unfinished.Front(), of.idle.Front(), of.answering.Front())
	return place.Value.(*connection) //nolint:forcetypeassert // no list has other values
}

// most returns the client with the largest number.
func (c *connections) most(number func(*clientConnections) int) (most *clientConnections) {
	for _, of := range c.clients {
		if most == nil || number(of) > number(most) {
			most = of
		}
	}
	return most
}

func unfinished(c *clientConnections) *list.List { return &c.unfinished }
func idle(c *clientConnections) *list.List       { return &c.idle }
func answering(c *clientConnections) *list.List  { return &c.answering }

// move puts a connection that is still counted at the end of another list of its client.
func (c *connections) move(at *connection, to func(*clientConnections) *list.List) {
	if at == nil {
		return
	}
	at.list.Remove(at.place)
	at.list = to(c.clients[at.client])
	at.place = at.list.PushBack(at)
}

func (c *connections) forget(at *connection) {
	if at == nil {
		return
	}
	at.list.Remove(at.place)
	delete(c.known, at.Conn)
	if c.clients[at.client].len() == 0 {
		delete(c.clients, at.client)
	}
}

type connectionKey struct{}

// awaitBodies counts a request as unfinished while its body is incomplete, and ends the time of its
// reading then.
func (c *connections) awaitBodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
		complete := func() {
			// An answer may take longer than the reading of its request.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			c.moveTo(answering, conn)
		}
		if r.ContentLength == 0 {
			complete()
		} else {
			c.moveTo(unfinished, conn)
			r = r.WithContext(r.Context()) // net/http still finds the body that it has made
			r.Body = &awaited{r.Body, complete}
		}
		next.ServeHTTP(w, r)
	})
}

func (c *connections) moveTo(list func(*clientConnections) *list.List, conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(c.known[conn], list)
}

// awaited is a body that tells when it is complete.
type awaited struct {
	io.ReadCloser
	complete func()
}

// Read reads from the body.
func (b *awaited) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	if errors.Is(err, io.EOF) && b.complete != nil {
		b.complete()
		b.complete = nil
	}
	return n, err
}
