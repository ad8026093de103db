"""The newest MCP SDK, which requests the newest protocol version first and accepts an older one."""

import asyncio
import os

import pytest
from mcp import Client, MCPError

RESERVED = {"reset", "step", "state", "close"}


@pytest.fixture
def ticket():
    return os.environ["CONFORMANCE_TICKET"] + "/mcp?task=ticket-resolve&seed=7"


@pytest.fixture
def workflow():
    return os.environ["CONFORMANCE_WORKFLOW"] + "/mcp?task=refund&seed=3"


def play(url, what, **options):
    async def run():
        async with Client(url, **options) as client:
            return await what(client)

    return asyncio.run(run())


def test_newest_sdk_lists_and_calls_tools_to_the_end_of_an_episode(ticket):
    async def episode(client):
        tools = (await client.list_tools()).tools
        assert {"get_observation", "classify", "resolve"} <= {tool.name for tool in tools} and not {tool.name for tool in tools} & RESERVED
        seen = await client.call_tool("get_observation", {})
        assert not seen.is_error and seen.structured_content["observation"]["task"] == "ticket-resolve"
        assert not (await client.call_tool("classify", {"category": "billing", "priority": "high"})).is_error
        last = await client.call_tool("resolve", {"message": "Hello, thank you for your message."})
        assert last.structured_content["done"] and 0 <= last.structured_content["metadata"]["episode_score"] <= 1

    play(ticket, episode)


def test_newest_sdk_plays_the_workflow(workflow):
    async def episode(client):
        for _ in range(40):
            result = (await client.call_tool("respond_user", {"message": "We look into it."})).structured_content
            if result["done"]:
                return result
        raise AssertionError("the episode did not end")

    assert play(workflow, episode)["metadata"]["episode_score"] >= 0


def test_newest_sdk_separates_errors_of_the_model_from_errors_of_the_program(ticket):
    async def episode(client):
        wrong = await client.call_tool("classify", {"category": "sports"})
        assert wrong.is_error and "billing" in wrong.content[0].text
        with pytest.raises(MCPError, match="juggle"):
            await client.call_tool("juggle", {})
        assert not (await client.call_tool("classify", {"category": "billing"})).is_error

    play(ticket, episode)


def test_newest_sdk_with_only_the_older_handshake(ticket):
    async def episode(client):
        return (await client.call_tool("get_observation", {})).structured_content["observation"]["task"]

    assert play(ticket, episode, mode="legacy") == "ticket-resolve"


def test_newest_sdk_sessions_are_independent(ticket):
    async def one(seed):
        async with Client(ticket.replace("seed=7", f"seed={seed}")) as client:
            await client.call_tool("classify", {"category": "billing"})
            return (await client.call_tool("get_observation", {})).structured_content["observation"]["subject"]

    async def all_of_them():
        return await asyncio.gather(*(one(seed) for seed in [1, 2, 3, 1]))

    subjects = asyncio.run(all_of_them())
    assert subjects[0] == subjects[3] and len(set(subjects)) == 3
