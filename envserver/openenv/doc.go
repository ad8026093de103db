// Package openenv serves an environment over the OpenEnv protocol and is a client of it.
//
// A session is one WebSocket connection with one environment. It costs one goroutine, which reads: so pings are answered, and a close is seen, while
// a long step runs. A second goroutine lives only as long as messages wait for their answers; it answers them one by one, in order. Nothing is ever sent
// on a session that no message asked for.
//
// A session holds one slot of the server's capacity. Whatever ends it (a close message, a close frame, a lost peer, the idle timeout, the maximum
// duration, a drain) goes through one function, which frees the slot first and closes the socket after, so that a client that closes and connects again is
// never refused because of itself, and no slot outlives its socket.
//
// Episodes that belong to an evaluation run are counted in the ledger of their run and shard, which the server signs.
package openenv
