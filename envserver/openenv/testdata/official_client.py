"""Plays against a running echo server with the official clients of OpenEnv and MCP. Usage: official_client.py BASE_URL CAPACITY"""

import asyncio
import sys

from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


def check(condition, what):
    if not condition:
        raise SystemExit(f"failed: {what}")


def check_error(error, code):
    check(code in str(error), f"{error!r} should name {code}")


async def play_async(url):
    async with GenericEnvClient(base_url=url) as env:
        result = await env.reset(seed=7, episode_id="E", prompt=[{"role": "user", "content": "x"}])
        check(result.observation == {"text": "hello", "seed": 7}, result)
        check(result.done is False and result.reward == 0, result)
        result = await env.step({"kind": "say", "text": "Zoë", "reward": -20})
        check(result.observation["text"] == "Zoë" and result.reward == -0.02, result)
        state = await env.state()
        check(state["episode_id"] == "E" and state["step_count"] == 1 and state["seed"] == 7, state)
        try:
            await env.step({"kind": "zzz"})
            check(False, "an invalid action should raise")
        except RuntimeError as error:
            check_error(error, "VALIDATION_ERROR")
        result = await env.step({"kind": "finish", "score": 850000, "reward": 1000})
        check(result.done is True and result.reward == 1.0, result)
        check(result.observation["metadata"]["episode_score"] == 0.85, result)


def play_sync(url):
    with GenericEnvClient(base_url=url).sync() as env:
        for seed in (1, 2):
            result = env.reset(seed=seed)
            check(result.observation["seed"] == seed, result)
            check(env.step({"kind": "say", "text": "x"}).observation["text"] == "x", "step")
            check(env.state()["step_count"] == 1, "state")


async def fill_up(url, capacity):
    clients = [GenericEnvClient(base_url=url) for _ in range(capacity)]
    for client in clients:
        await client.connect()
        await client.reset()
    refused = GenericEnvClient(base_url=url)
    await refused.connect()
    await asyncio.sleep(0.5)
    try:
        await refused.reset()
        check(False, "a session too many should raise")
    except RuntimeError as error:
        check_error(error, "CAPACITY_REACHED")
    await refused.close()
    await clients.pop().close()
    again = GenericEnvClient(base_url=url)
    await again.connect()
    await again.reset()
    for client in [again, *clients]:
        await client.close()


async def play_tools(url):
    async with MCPToolClient(base_url=url) as env:
        await env.reset(seed=5)
        tools = {tool.name: tool for tool in await env.list_tools()}
        check({"get_observation", "say", "finish"} <= set(tools) and not {"reset", "step", "state", "close"} & set(tools), tools)
        said = await env.call_tool("say", text="Zoë", reward=100)
        check(said["observation"] == {"text": "Zoë", "seed": 5} and said["reward"] == 0.1 and said["done"] is False, said)
        try:
            await env.call_tool("zzz")
            check(False, "an invalid call should raise")
        except RuntimeError as error:
            check_error(error, "kind should be say")
        listed = await env.step(ListToolsAction())
        check({tool.name for tool in listed.observation.tools} == set(tools), listed)
        result = await env.step(CallToolAction(tool_name="say", arguments={"text": "x", "reward": 200}))
        check(result.reward == 0.2 and result.observation.error is None, result)
        check(result.observation.result["data"]["observation"]["text"] == "x", result)
        result = await env.step(CallToolAction(tool_name="juggle", arguments={}))
        check(result.observation.error.error_type.value == "tool_not_found" and result.done is False, result)
        check((await env.state()).step_count == 2, "two steps")
        result = await env.step(CallToolAction(tool_name="finish", arguments={"score": 500000}))
        check(result.done is True and result.observation.metadata["episode_score"] == 0.5, result)


async def play_mcp(url):
    async with streamablehttp_client(url + "/mcp?seed=9") as (reader, writer, _):
        async with ClientSession(reader, writer) as session:
            await session.initialize()
            await session.send_ping()
            names = {tool.name for tool in (await session.list_tools()).tools}
            check("get_observation" in names and "reset" not in names, names)
            seen = await session.call_tool("get_observation", {})
            check(seen.structuredContent["observation"]["seed"] == 9 and not seen.isError, seen)
            said = await session.call_tool("say", {"text": "hi", "reward": 300})
            check(said.structuredContent == {"observation": {"text": "hi", "seed": 9}, "reward": 0.3, "done": False}, said)
            check((await session.call_tool("zzz", {})).isError, "an invalid call is an error that the model reads")


def main():
    url, capacity = sys.argv[1], int(sys.argv[2])
    asyncio.run(play_async(url))
    play_sync(url)
    asyncio.run(play_tools(url))
    asyncio.run(play_mcp(url))
    asyncio.run(fill_up(url, capacity))
    print("passed")


main()
