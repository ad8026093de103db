"""Plain rollouts: 64 sessions at a time, in groups that play the same episode, as GRPO wants them."""

import asyncio

from customer_support_env import AsyncToolClient, list_tools
from common import Scripted, report

GROUPS, GENERATIONS = 8, 8


async def rollout(tools, seed: int, generation: int) -> float:
    async with AsyncToolClient(tools=tools, task="ticket-resolve") as client:
        task = await client.reset(seed=seed)
        policy = Scripted(task, generation)
        while not client.episode.done:
            await client.call(*policy.act())
        assert client.episode.result() == client.episode.score
        return client.episode.result()


async def main() -> None:
    tools = list_tools()
    groups = [[rollout(tools, seed, generation) for generation in range(GENERATIONS)] for seed in range(GROUPS)]
    rewards = await asyncio.gather(*(asyncio.gather(*group) for group in groups))
    for seed, group in enumerate(rewards):
        mean = sum(group) / len(group)
        print(f"seed {seed}: mean {mean:.3f}, advantages {[round(reward - mean, 3) for reward in group]}")
    report("openenv", len(rewards) * GENERATIONS)


asyncio.run(main())
