// Package openenv serves an environment over the OpenEnv protocol and is a client of it.
//
// A session is an environment that holds one slot of the server's capacity. One registry has them
// all, whether a socket made them, a request of OpenEnv's MCP dialect or an MCP client, and
// whatever plays on them: sockets, plain HTTP and tools take turns.
//
// A socket costs one goroutine, which reads: so pings are answered, and a close is seen, while a
// long step runs. A second goroutine lives only as long as messages wait for their answers; it
// answers them one by one, in order. Nothing is ever sent on a socket that no message asked for.
//
// Whatever ends a session (a close message, a close frame, a lost peer, the idle timeout, the
// maximum duration, a drain) goes through one function, which frees the slot first and closes the
// socket after, so that a client that closes and connects again is never refused because of itself,
// and no slot outlives its socket.
//
// Servers that are peers of a pool answer for each other. An id names the server that its session
// lives on, a request that comes to another one is forwarded once, and a server without room has a
// peer begin the session. What comes over a socket's own connection passes none of that.
//
// Agents get tools, which are the environment's actions and a look at the observation, and nothing
// of the orchestrator's: reset, step, state and close are no tools.
//
// Episodes that belong to an evaluation run are counted in the ledger of their run and shard, which
// the server signs.
package openenv
