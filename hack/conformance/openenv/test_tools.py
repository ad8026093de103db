"""Agents with tools: OpenEnv's MCPToolClient, and the MCP SDK that it depends on."""

import asyncio

import pytest
from mcp import ClientSession, McpError
from mcp.client.streamable_http import streamablehttp_client
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation, ListToolsAction, ListToolsObservation
from openenv.core.mcp_client import MCPToolClient

TICKET_TOOLS = {"classify", "escalate", "get_observation", "resolve", "respond", "search_knowledge_base", "select_ticket", "submit"}
RESERVED = {"reset", "step", "state", "close"}


def test_tool_client_plays_an_episode_over_both_transports_async(ticket):
    async def play():
        async with MCPToolClient(base_url=ticket.url) as env:
            first = await env.reset(seed=7, task="ticket-resolve")
            tools = await env.list_tools()
            assert {tool.name for tool in tools} == TICKET_TOOLS
            assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools)
            seen = await env.call_tool("get_observation")
            assert seen["observation"]["subject"] == first.observation.subject and (await env.state()).step_count == 0
            called = await env.call_tool("classify", category="billing", priority="high")
            assert called["done"] is False and isinstance(called["reward"], (int, float))
            assert (await env.state()).step_count == 1, "a tool call by POST is a step of the socket's episode"
            last = await env.call_tool("resolve", message="Hello, thank you for your message.")
            assert last["done"] is True and 0 <= last["metadata"]["episode_score"] <= 1
            assert (await env.state()).step_count == 2

    asyncio.run(play())


def test_tool_client_plays_sync(workflow):
    with MCPToolClient(base_url=workflow.url).sync() as env:
        env.reset(seed=7, task="order-inquiry")
        names = {tool.name for tool in env.list_tools()}
        assert {"check_order_status", "respond_user", "get_observation"} <= names and not names & RESERVED
        assert env.has_tool("check_payment") and not env.has_tool("reset")
        assert env.call_tool("check_order_status")["done"] is False
        assert env.state().step_count == 1
        assert env.call_tool("respond_user", message="We look into it.")["observation"]["history"]


def test_tool_client_calls_tools_before_any_reset(ticket):
    async def play():
        async with MCPToolClient(base_url=ticket.url) as env:
            assert len(await env.list_tools()) == len(TICKET_TOOLS)
            assert (await env.call_tool("get_observation"))["observation"]["subject"]

    asyncio.run(play())


def test_tool_client_raises_on_unknown_tools_and_wrong_arguments_and_continues(ticket):
    async def play():
        async with MCPToolClient(base_url=ticket.url) as env:
            await env.reset(seed=7, task="ticket-resolve")
            with pytest.raises(RuntimeError, match="juggle"):
                await env.call_tool("juggle")
            with pytest.raises(RuntimeError, match="category"):
                await env.call_tool("classify", category="sports")
            assert (await env.call_tool("classify", category="billing"))["done"] is False

    asyncio.run(play())


def test_tool_actions_as_steps_have_the_shapes_that_the_client_requires(ticket):
    async def play():
        async with MCPToolClient(base_url=ticket.url) as env:
            await env.reset(seed=7, task="ticket-resolve")
            listed = await env.step(ListToolsAction())
            assert isinstance(listed.observation, ListToolsObservation) and {tool.name for tool in listed.observation.tools} == TICKET_TOOLS
            called = await env.step(CallToolAction(tool_name="classify", arguments={"category": "billing"}))
            assert isinstance(called.observation, CallToolObservation) and called.observation.error is None and called.reward is not None
            assert called.observation.result["data"]["observation"]["task"] == "ticket-resolve"
            for name, arguments, kind in (("juggle", {}, "tool_not_found"), ("classify", {"category": "sports"}, "invalid_args")):
                wrong = await env.step(CallToolAction(tool_name=name, arguments=arguments))
                assert wrong.observation.error.error_type.value == kind and wrong.done is False
            last = await env.step(CallToolAction(tool_name="resolve", arguments={"message": "Hello"}))
            assert last.done and last.observation.metadata["outcome"] == "scored"

    asyncio.run(play())


def test_tool_client_gives_its_slot_back_every_time(small):
    """The client creates a session by POST, attaches to it, closes the socket, and closes the session by POST."""
    for seed in range(20):
        with MCPToolClient(base_url=small.url).sync() as env:
            env.reset(seed=seed)
            assert env.call_tool("get_observation")["observation"]["ticket_id"]
    assert small.sessions() == 0


def test_tool_client_at_capacity_raises_an_error(small):
    with MCPToolClient(base_url=small.url).sync() as env:
        env.reset(seed=1)
        with pytest.raises(RuntimeError, match="(?i)capacity|session"):
            MCPToolClient(base_url=small.url).sync().connect()
        assert env.call_tool("get_observation")["observation"]["ticket_id"]
    assert small.sessions() == 0


async def with_mcp(url, play, headers=None):
    async with streamablehttp_client(url, headers=headers) as (reader, writer, _):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            return await play(session)


def test_mcp_sdk_lists_and_calls_tools_to_the_end_of_an_episode(ticket):
    before = ticket.sessions()

    async def play(session):
        await session.send_ping()
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools} == TICKET_TOOLS and all(tool.description and tool.inputSchema["type"] == "object" for tool in tools)
        seen = await session.call_tool("get_observation", {})
        assert not seen.isError and seen.structuredContent["observation"]["task"] == "ticket-resolve"
        again = await session.call_tool("get_observation", {})
        assert again.structuredContent == seen.structuredContent, "get_observation is not a step"
        assert not (await session.call_tool("classify", {"category": "billing", "priority": "high"})).isError
        last = await session.call_tool("resolve", {"message": "Hello, thank you for your message."})
        assert last.structuredContent["done"] and 0 <= last.structuredContent["metadata"]["episode_score"] <= 1

    asyncio.run(with_mcp(ticket.url + "/mcp?task=ticket-resolve&seed=7", play))
    ticket.wait_for_sessions(before)


def test_mcp_sdk_returns_argument_errors_to_the_model(ticket):
    async def play(session):
        wrong = await session.call_tool("classify", {"category": "sports"})
        assert wrong.isError and "billing" in wrong.content[0].text
        with pytest.raises(McpError, match="juggle"):
            await session.call_tool("juggle", {})
        assert not (await session.call_tool("classify", {"category": "billing"})).isError

    asyncio.run(with_mcp(ticket.url + "/mcp?task=ticket-resolve&seed=7", play))


def test_mcp_sdk_gets_a_penalty_for_an_argument_error_if_its_url_says_so(ticket):
    async def play(session):
        wrong = await session.call_tool("classify", {"category": "sports"})
        assert not wrong.isError and wrong.structuredContent["reward"] == -0.25 and "billing" in wrong.structuredContent["observation"]["feedback"]
        assert (await session.call_tool("classify", {"category": "billing"})).structuredContent["reward"] == 0

    asyncio.run(with_mcp(ticket.url + "/mcp?task=ticket-resolve&seed=7&invalid_action_penalty=0.25", play))


def test_mcp_sdk_plays_the_workflow(workflow):
    async def play(session):
        result = None
        for _ in range(40):
            result = (await session.call_tool("respond_user", {"message": "We look into it."})).structuredContent
            if result["done"]:
                break
        assert result["done"] and result["metadata"]["episode_score"] >= 0

    asyncio.run(with_mcp(workflow.url + "/mcp?task=refund&seed=3", play))


def test_mcp_sdk_sessions_are_independent(ticket):
    async def one(seed):
        async def play(session):
            await session.call_tool("classify", {"category": "billing"})
            return (await session.call_tool("get_observation", {})).structuredContent["observation"]["subject"]

        return await with_mcp(f"{ticket.url}/mcp?task=ticket-resolve&seed={seed}", play)

    async def play():
        return await asyncio.gather(*(one(seed) for seed in [1, 2, 3, 1]))

    subjects = asyncio.run(play())
    assert subjects[0] == subjects[3] and len(set(subjects)) == 3
