"""csenv's environments for verifiers: `vf-eval customer-support-verifiers`.

The model plays by text: one JSON object in each turn. Unlike with the OpenEnv task set of verifiers, an invalid action doesn't
end the rollout; the answer says what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf
from customer_support_env.tools import AsyncToolClient, parse_call

__all__ = ["SupportEnv", "SupportEnvConfig", "SupportTask", "SupportTaskset"]

INSTRUCTIONS = 'Handle the task with tools. Answer with one JSON object in each turn: {"tool": NAME, "arguments": {…}}. Tools:\n'


class SupportData(vf.TaskData):
    """An episode: a server and the options of a reset."""

    base_url: str | None
    reset: dict[str, Any]


class SupportConfig(vf.TasksetConfig):
    base_url: str | None = None
    """The server; $CSENV_URL, or http://localhost:8000, if it isn't set. The token is the URL's password or $CSENV_TOKEN."""
    seeds: int = 16
    """The number of episodes, with the seeds from 0."""
    reset: dict[str, Any] = {}
    """Reset options of every episode, such as a task."""


class SupportTask(vf.Task[SupportData]):
    pass


class SupportTaskset(vf.Taskset[SupportTask, SupportConfig]):
    """One task for each seed."""

    def load(self) -> Iterator[SupportTask]:
        for seed in range(self.config.seeds):
            data = SupportData(name=f"seed-{seed}", prompt=None, base_url=self.config.base_url, reset={**self.config.reset, "seed": seed})
            yield SupportTask(data, self.config.task)


class SupportEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class SupportEnv(vf.Env[SupportEnvConfig]):
    """Plays a session with the agent. Its reward, customer_support, is the server's."""

    async def run(self, task: SupportTask, agents: Any) -> None:
        async with AsyncToolClient(task.data.base_url) as client:
            prompt = await client.reset(**task.data.reset)
            tools = json.dumps([tool["function"] for tool in client.schemas], ensure_ascii=False)
            async with agents.player.interaction(task) as interaction:
                segment = await interaction.turn(f"{INSTRUCTIONS}{tools}\n\n{prompt}")
                while not segment.terminated:
                    try:
                        answer = await client.call(*parse_call(segment.last_reply))
                    except ValueError as error:
                        answer = f"error: {error}"
                    # A lost episode raises here: the rollout failed and has no reward.
                    client.episode.result()
                    if client.episode.done:
                        break
                    segment = await interaction.turn(answer)
            interaction.trace.record_reward("customer_support", client.episode.result())
            if client.episode.score is not None:
                interaction.trace.record_metric("score", client.episode.score)
