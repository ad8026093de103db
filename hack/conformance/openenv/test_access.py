"""Tokens, and the production mode."""

import asyncio

import pytest
from customer_support_env import CustomerSupportEnv
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from openenv.auto import AutoEnv
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


@pytest.mark.parametrize(("method", "path"), [("POST", "/reset"), ("POST", "/step"), ("GET", "/state"), ("GET", "/metadata"), ("POST", "/mcp"), ("GET", "/list_environments")])
def test_request_without_the_token_is_401(token, method, path):
    body = {} if method == "POST" else None
    assert token.http(method, path, body)[0] == 401
    assert token.http(method, path, body, {"Authorization": "Bearer another"})[0] == 401


def test_health_needs_no_token(token):
    assert token.http("GET", "/health") == (200, {"status": "healthy"})


@pytest.mark.parametrize("headers", [None, {"Authorization": "Bearer another"}])
def test_clients_without_the_token_get_401(token, headers):
    with pytest.raises(ConnectionError, match="401"):
        GenericEnvClient(base_url=token.url, headers=headers).sync().connect()
    with pytest.raises(Exception, match="401"):
        MCPToolClient(base_url=token.url, headers=headers).sync().connect()


def test_clients_with_the_token_can_play(token, token_headers):
    with GenericEnvClient(base_url=token.url, headers=token_headers).sync() as env:
        assert env.reset(seed=7).observation["ticket_id"]
        assert env.new_session().reset(seed=7).observation["ticket_id"]
    with CustomerSupportEnv(base_url=token.url, headers=token_headers).sync() as env:
        assert env.reset(seed=7).observation.ticket_id
    with MCPToolClient(base_url=token.url, headers=token_headers).sync() as env:
        env.reset(seed=7)
        assert env.call_tool("get_observation")["observation"]["ticket_id"]
    with AutoEnv.from_env("somebody/customer-support", base_url=token.url, skip_install=True, headers=token_headers).sync() as env:
        assert env.reset(seed=7).observation["ticket_id"]


def test_mcp_sdk_with_and_without_the_token(token, token_headers):
    async def play(headers):
        async with streamablehttp_client(token.url + "/mcp?seed=7", headers=headers) as (reader, writer, _):
            async with ClientSession(reader, writer) as session:
                await session.initialize()
                return (await session.call_tool("get_observation", {})).structuredContent["observation"]["ticket_id"]

    assert asyncio.run(play(token_headers))
    with pytest.raises(BaseException) as raised:
        asyncio.run(asyncio.wait_for(play(None), timeout=20))
    assert "401" in repr(flat(raised.value))


def flat(error):
    return [part for inner in error.exceptions for part in flat(inner)] if isinstance(error, BaseExceptionGroup) else [error]


def test_production_has_no_reset_step_or_state_over_http(production):
    for method, path in (("POST", "/reset"), ("POST", "/step"), ("GET", "/state")):
        assert production.http(method, path, {} if method == "POST" else None)[0] == 404
    assert not {"/reset", "/step", "/state"} & set(production.http("GET", "/openapi.json")[1]["paths"])


def test_production_has_no_reset_step_or_state_over_websockets(production):
    with production.socket() as env:
        for kind, data in (("reset", {"seed": 7}), ("step", {"action_type": "resolve"}), ("state", None)):
            assert env.code(kind, data) != "", kind
        seen = env.ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_observation"}})
        assert seen["data"]["result"]["is_error"] is False
    with pytest.raises(RuntimeError, match="production"):
        with GenericEnvClient(base_url=production.url).sync() as env:
            env.reset(seed=7)


def test_production_has_tools_for_every_client(production):
    async def play():
        async with MCPToolClient(base_url=production.url) as env:
            assert {tool.name for tool in await env.list_tools()} >= {"get_observation", "resolve"}
            assert (await env.call_tool("classify", category="billing", priority="high"))["observation"]["step"] == 1
        async with streamablehttp_client(production.url + "/mcp?task=ticket-resolve&seed=7") as (reader, writer, _):
            async with ClientSession(reader, writer) as session:
                await session.initialize()
                last = await session.call_tool("resolve", {"message": "Hello"})
                assert last.structuredContent["done"] is True
                names = {tool.name for tool in (await session.list_tools()).tools}
                assert not names & {"reset", "step", "state", "close"}

    asyncio.run(play())
    production.wait_for_sessions(0)

