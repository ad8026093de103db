package client

import "net"

// New and Endpoint export newClient and endpoint to the tests.
var (
	New      = newClient
	Endpoint = endpoint
	Fitting  = fitting
)

// Answered reports whether an unread answer has arrived.
func (c *Client) Answered() bool { return len(c.answers) == 1 }

// NetConn returns the connection below the WebSocket.
func (c *Client) NetConn() net.Conn { return c.conn.NetConn() }
