"""Sessions that a terminating server hands over to another one of its pool."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from openenv.core.env_client import EnvClient
from websockets.exceptions import ConnectionClosed

__all__ = ["MovingClient"]

ActT = TypeVar("ActT")
ObsT = TypeVar("ObsT")
StateT = TypeVar("StateT")

# A server closes the socket of a session that continues elsewhere with this code, after it has answered all that it has processed.
MOVED = 1012
SESSION_ID = "session_id="
MAX_MOVES = 8  # of one message
MAX_FOLLOWS, FOLLOW_PAUSE_S = 20, 0.25


class MovingClient(EnvClient[ActT, ObsT, StateT]):
    """A client that connects again where its session continues, and sends an unanswered message again.

    If an answer doesn't come within message_timeout_s, it closes its socket: a late answer would be taken for that of the next message.
    The session is lost with it, and the next reset begins another one.
    """

    async def _ensure_connected(self) -> None:
        session = _moved_to(self._ws)
        if session is None:
            await super()._ensure_connected()
            return
        home = self._ws_url or ""
        base, _, query = home.partition("?")
        parameters = [part for part in query.split("&") if part and not part.startswith(SESSION_ID)]
        parameters += [SESSION_ID + session] if session else []
        self._ws_url = "?".join([base, *(["&".join(parameters)] if parameters else [])])
        self._ws = None  # older versions of openenv take a closed socket for an open one
        try:
            await self._follow()
        finally:
            self._ws_url = home

    async def _follow(self) -> None:
        """Connects, several times if it must: the address may still lead to the server that has handed the session over."""
        for _ in range(MAX_FOLLOWS):
            try:
                return await super()._ensure_connected()
            except ConnectionError:
                await asyncio.sleep(FOLLOW_PAUSE_S)
        await super()._ensure_connected()

    async def _send_and_receive(self, message: dict[str, Any]) -> dict[str, Any]:
        for _ in range(MAX_MOVES):
            try:
                return await super()._send_and_receive(message)
            except ConnectionClosed:
                if _moved_to(self._ws) is None:
                    raise
            except (TimeoutError, asyncio.TimeoutError, asyncio.CancelledError):
                self._abandon()
                raise
        return await super()._send_and_receive(message)

    def _abandon(self) -> None:
        """Closes the socket at once, without the handshake of a close, which the server may be too busy to answer."""
        ws, self._ws = self._ws, None
        if ws is not None:
            ws.transport.abort()


def _moved_to(ws: Any) -> str | None:
    """Returns the id of the session that continues elsewhere, "" if the client should begin another one, None if the server has not said so."""
    closed = ws.protocol.close_rcvd if ws is not None else None
    return closed.reason.partition(SESSION_ID)[2] if closed is not None and closed.code == MOVED else None
