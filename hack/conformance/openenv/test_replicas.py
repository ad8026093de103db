"""Sessions on replicas behind one address, where each connection may reach a different replica."""

import asyncio
import contextlib
import json

from customer_support_env import CustomerSupportAction, CustomerSupportEnv
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from openenv.auto import AutoEnv
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


def test_tool_client_plays_on_three_replicas_behind_a_service(front, replicas):
    """One connection creates the session, a second attaches to it, and others play it."""
    for seed in range(6):
        with MCPToolClient(base_url=front.url).sync() as env:
            first = env.reset(seed=seed, task="ticket-resolve")
            assert env.call_tool("get_observation")["observation"]["subject"] == first.observation.subject
            assert env.call_tool("resolve", message="Hello")["done"] is True
    for replica in replicas:
        replica.wait_for_sessions(0)


def test_every_kind_of_client_plays_on_three_replicas_behind_a_service(front, replicas):
    async def play():
        async with GenericEnvClient(base_url=front.url) as env:
            await env.reset(seed=7, task="ticket-resolve")
            return await env.step({"action_type": "resolve", "message": "Hello"})

    for _ in replicas:
        results = [asyncio.run(play())]
        for env in (GenericEnvClient(base_url=front.url), AutoEnv.from_env("somebody/customer-support", base_url=front.url, skip_install=True), CustomerSupportEnv(base_url=front.url)):
            with env.sync() as playing:
                playing.reset(seed=7, task="ticket-resolve")
                action = {"action_type": "resolve", "message": "Hello"}
                results.append(playing.step(CustomerSupportAction(**action) if isinstance(env, CustomerSupportEnv) else GenericAction(**action)))
        assert all(result.done for result in results)
        assert len({json.dumps(result.metadata, sort_keys=True) for result in results}) == 1, "the same seed and action give the same result"
    for replica in replicas:
        replica.wait_for_sessions(0)


def test_http_requests_of_a_session_reach_its_replica(front, replicas):
    for seed in range(6):
        session = front.create()
        for path, body in (("/reset", {"seed": seed}), ("/step", {"action": {"action_type": "classify", "category": "billing"}})):
            status, answer = front.http("POST", path, body | {"session_id": session})
            assert status == 200, answer
        assert front.http("GET", "/state?session_id=" + session)[1]["seed"] == seed
        assert front.rpc("openenv/session/close", session_id=session)["result"]["closed"] is True
    for replica in replicas:
        replica.wait_for_sessions(0)


def test_session_can_be_attached_through_any_replica_but_only_once(front, replicas):
    session = replicas[0].create()
    for replica in replicas:
        with replica.socket(session) as env:
            env.ask("reset", {"seed": 7})
            for other in replicas:
                with other.socket(session) as second:
                    assert second.code("state") == "SESSION_ERROR"
            assert env.ask("state")["data"]["seed"] == 7
    assert replicas[2].rpc("openenv/session/close", session_id=session)["result"]["closed"] is True
    replicas[0].wait_for_sessions(0)


def test_full_replica_passes_new_sessions_on_until_the_pool_is_full(replicas):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(replicas[0].socket()) for _ in range(96)]
        assert {env.ask("reset", {"seed": 7})["type"] for env in sockets} == {"observation"}
        assert [replica.sessions() for replica in replicas] == [32, 32, 32]
        assert stack.enter_context(replicas[1].socket()).code("reset", {"seed": 7}) == "CAPACITY_REACHED"
    for replica in replicas:
        replica.wait_for_sessions(0)


def test_mcp_sdk_plays_on_three_replicas_behind_a_service(front, replicas):
    async def play(seed):
        async with streamablehttp_client(f"{front.url}/mcp?task=ticket-resolve&seed={seed}") as (reader, writer, _):
            async with ClientSession(reader, writer) as session:
                await session.initialize()
                await session.call_tool("classify", {"category": "billing"})
                last = await session.call_tool("resolve", {"message": "Hello"})
                assert last.structuredContent["done"] is True

    async def all_of_them():
        await asyncio.gather(*(play(seed) for seed in range(6)))

    asyncio.run(all_of_them())
    for replica in replicas:
        replica.wait_for_sessions(0)
