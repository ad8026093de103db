"""A session whose server hands it over, as the close code 1012 says."""

import asyncio
import json

import pytest
from customer_support_env import CustomerSupportAction, CustomerSupportEnv, ToolClient
from websockets.asyncio.server import serve

OBSERVATION = {
    "type": "observation",
    "data": {"observation": {"subject": "", "description": "", "customer_name": "", "task": "ticket-resolve", "step": 0, "max_steps": 8}, "reward": None, "done": False, "metadata": {}},
}


def play(reasons, use):
    """Plays on a server that closes connection i with reasons[i] after its first answer, and returns the requested paths and the messages."""
    paths, messages = [], []

    async def connected(socket):
        place = len(paths)
        paths.append(socket.request.path)
        async for message in socket:
            messages.append(json.loads(message)["type"])
            await socket.send(json.dumps(OBSERVATION))
            if place < len(reasons):
                await socket.close(1012, reasons[place])

    async def run():
        async with serve(connected, "127.0.0.1", 0) as server:
            await use(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")

    asyncio.run(run())
    return paths, messages


async def steps(url):
    async with CustomerSupportEnv(base_url=url) as env:
        await env.reset(seed=7)
        await env.step(CustomerSupportAction.search("refund"))
        await env.step(CustomerSupportAction.search("charge"))


@pytest.mark.parametrize(
    ("reasons", "paths"),
    [
        (["continue with session_id=B.1"], ["/ws", "/ws?session_id=B.1"]),
        (["continue with session_id=B.1", "continue with session_id=C.2"], ["/ws", "/ws?session_id=B.1", "/ws?session_id=C.2"]),
        (["the server is shutting down: connect again"], ["/ws", "/ws"]),
    ],
)
def test_client_follows(reasons, paths):
    assert play(reasons, steps) == (paths, ["reset", "step", "step", "close"])


def test_tool_client_follows():
    assert issubclass(type(ToolClient("http://127.0.0.1:1", tools=[])._client), type(CustomerSupportEnv(base_url="http://x")).__mro__[1])


def test_a_late_answer_is_not_taken_for_the_next_one():
    """A client that waits no longer closes its socket, and the next reset begins another session."""
    sessions = []

    async def connected(socket):
        sessions.append(socket)
        place = len(sessions)
        async for message in socket:
            if json.loads(message)["type"] == "step":
                await asyncio.sleep(1)
            answer = json.loads(json.dumps(OBSERVATION))
            answer["data"]["observation"]["subject"] = f"session {place}"
            await socket.send(json.dumps(answer))

    async def run():
        async with serve(connected, "127.0.0.1", 0) as server:
            async with CustomerSupportEnv(base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", message_timeout_s=0.3) as env:
                await env.reset(seed=7)
                with pytest.raises((TimeoutError, asyncio.TimeoutError)):
                    await env.step(CustomerSupportAction.search("refund"))
                await asyncio.sleep(1)
                return (await env.reset(seed=8)).observation.subject

    assert asyncio.run(run()) == "session 2"
