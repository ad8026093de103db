package client

import (
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"
)

// Endpoint and Fitting export functions to the tests.
var (
	Endpoint = buildRouteURL
	Fitting  = countFitting
)

// New makes a client of a connection.
func New(conn *websocket.Conn, silence time.Duration) *Client {
	return newClient(newConnection(conn, silence))
}

// ProxyOf returns the proxy of a request in an environment with a proxy.
func ProxyOf(r *http.Request, environment *url.URL) (*url.URL, error) {
	environmentProxy = func(*http.Request) (*url.URL, error) { return environment, nil }
	defer func() { environmentProxy = http.ProxyFromEnvironment }()
	return chooseProxy(r)
}

// Answered reports whether an unread answer has arrived.
func (c *Client) Answered() bool { return len(c.current.Load().answers) == 1 }

// NetConn returns the connection below the WebSocket.
func (c *Client) NetConn() net.Conn { return c.current.Load().NetConn() }
