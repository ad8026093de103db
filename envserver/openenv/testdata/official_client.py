"""Plays against a running echo server with the official OpenEnv client. Usage: official_client.py BASE_URL CAPACITY"""

import asyncio
import sys

from openenv.core.generic_client import GenericEnvClient


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


def main():
    url, capacity = sys.argv[1], int(sys.argv[2])
    asyncio.run(play_async(url))
    play_sync(url)
    asyncio.run(fill_up(url, capacity))
    print("passed")


main()
