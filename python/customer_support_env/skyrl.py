"""An environment for skyrl-gym, whose action is the text of a model's turn."""

from __future__ import annotations

import json
from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from .tools import ToolClient, parse_call

__all__ = ["SupportTextEnv"]

INSTRUCTIONS = 'Handle the task below with tools. Answer with one JSON object in <action></action>: {"tool": NAME, "arguments": {…}}. Tools:\n'


class SupportTextEnv(BaseTextEnv):
    """Plays one episode. env_config and extras may have url, token and reset options; extras, a data set's row, takes precedence."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        options = dict(env_config or {}) | (extras or {})
        self.max_turns = int(options.pop("max_turns", 0) or 30)
        self.client = ToolClient(options.pop("url", None), token=options.pop("token", None))
        self.options = options

    def init(self, prompt: list[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, Any]]:
        """Begins the episode and appends its task to the prompt."""
        task = self.client.reset(**self.options)
        tools = json.dumps([tool.schema["function"] for tool in self.client.offered], ensure_ascii=False)
        return [*prompt, {"role": "user", "content": f"{INSTRUCTIONS}{tools}\n\n{task}"}], {}

    def step(self, action: str) -> BaseTextEnvStepOutput:  # type: ignore[override]
        """Plays a turn. It raises EpisodeLost if the environment was lost, because the rollout has no reward then."""
        self.turns += 1
        episode = self.client.episode
        before = episode.reward
        try:
            answer = self.client.call(*parse_call(action))
        except ValueError as error:
            answer = f"error: {error}"
        reward = episode.result() - before
        done = episode.done or self.turns >= self.max_turns
        observations = [] if done else [{"role": "user", "content": answer}]
        return BaseTextEnvStepOutput(
            observations=observations, reward=reward, done=done, metadata=dict(episode.metadata), postprocessed_action=action
        )

    def get_metrics(self) -> dict[str, Any]:
        """The score, if the episode has one, and the number of turns."""
        score = self.client.episode.score
        return {"turns": self.turns} | ({} if score is None else {"score": score})

    def close(self) -> None:
        self.client.close()
