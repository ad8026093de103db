"""Copies of live sessions, for tree search and for groups of rollouts with a shared beginning.

The functions take any client of openenv that is connected to a server of csenv: an EnvClient, whose results are awaited, or what
its method sync() returns. docs/forking.md of the repository describes the methods of the server.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from openenv.core.env_client import EnvClient
from openenv.core.sync_client import SyncEnvClient

__all__ = ["checkpoint", "fork", "restore"]


def fork(client: Any, n: int = 1) -> Any:
    """Copies the session of a client into n new ones, all or none, and returns their clients.

    A copy has the type of the client, plays on independently, and has the same future for the same actions. Close each of them.
    RuntimeError has the server's reason if it refuses.
    """
    if isinstance(client, SyncEnvClient):
        return [one.sync() for one in _run(client, _fork(client.async_client, n))]
    return _fork(client, n)


def checkpoint(client: Any) -> Any:
    """Returns the episode of a client as text that every server of the pool can restore, also when this one is gone."""
    return _maybe_run(client, _checkpoint)


def restore(client: Any, saved: str) -> Any:
    """Continues a saved episode in a client that plays none, and returns its last result: a StepResult."""
    return _maybe_run(client, lambda one: _restore(one, saved))


def _maybe_run(client: Any, call: Any) -> Any:
    if isinstance(client, SyncEnvClient):
        return _run(client, call(client.async_client))
    return call(client)


def _run(client: SyncEnvClient[Any, Any, Any], call: Coroutine[Any, Any, Any]) -> Any:
    return client._run(call)


async def _ask(client: EnvClient[Any, Any, Any], method: str, **params: Any) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": "session/" + method, "params": params}
    answer = (await client._send_and_receive({"type": "mcp", "data": request}))["data"]
    if "error" in answer:
        raise RuntimeError(f"session/{method}: {answer['error']['message']}")
    return answer["result"]


async def _fork(client: EnvClient[Any, Any, Any], n: int) -> list[EnvClient[Any, Any, Any]]:
    forks = []
    for session in (await _ask(client, "fork", n=n))["session_ids"]:
        one = client._create_session_client()
        one._ws_url = f"{one._ws_url}?session_id={session}"
        forks.append(one)
    return forks


async def _checkpoint(client: EnvClient[Any, Any, Any]) -> str:
    return str((await _ask(client, "checkpoint"))["checkpoint"])


async def _restore(client: EnvClient[Any, Any, Any], saved: str) -> Any:
    return client._parse_result((await _ask(client, "restore", checkpoint=saved))["result"])
