package client

import "net"

// New and Endpoint are newClient and endpoint.
var (
	New      = newClient
	Endpoint = endpoint
	Fitting  = fitting
)

// Answered reports whether an answer that nobody has read yet has arrived.
func (c *Client) Answered() bool { return len(c.answers) == 1 }

// NetConn is the connection below the WebSocket.
func (c *Client) NetConn() net.Conn { return c.conn.NetConn() }
