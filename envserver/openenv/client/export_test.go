package client

import (
	"net"
	"net/http"
	"net/url"
)

// New and Endpoint export newClient and endpoint to the tests.
var (
	New      = newClient
	Endpoint = endpoint
	Fitting  = fitting
)

// ProxyOf returns the proxy of a request in an environment with a proxy.
func ProxyOf(r *http.Request, environment *url.URL) (*url.URL, error) {
	environmentProxy = func(*http.Request) (*url.URL, error) { return environment, nil }
	defer func() { environmentProxy = http.ProxyFromEnvironment }()
	return proxy(r)
}

// Answered reports whether an unread answer has arrived.
func (c *Client) Answered() bool { return len(c.answers) == 1 }

// NetConn returns the connection below the WebSocket.
func (c *Client) NetConn() net.Conn { return c.conn.NetConn() }
