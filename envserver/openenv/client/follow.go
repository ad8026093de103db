package client

import (
	"time"
)

const (
	// maxMoves bounds how often one message is sent again because the session has moved.
	maxMoves = 8
	// maxFollows bounds the attempts to connect to it, between which followPause passes: the
	// address may still lead to the server that has handed it over.
	maxFollows  = 20
	followPause = 250 * time.Millisecond
)
