"""A Gymnasium environment with texts as observations and actions."""

from __future__ import annotations

import json
import string
from typing import Any

import gymnasium

from .tools import ToolClient, parse_call

__all__ = ["SupportGymEnv"]

MAX_OBSERVATION, MAX_ACTION = 1 << 17, 1 << 14


class SupportGymEnv(gymnasium.Env[str, str]):
    """An action is the text of a JSON object, {"tool": NAME, "arguments": {…}}. An observation is JSON in ASCII."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, base_url: str | None = None, *, token: str | None = None, **reset: Any) -> None:
        self.client = ToolClient(base_url, token=token, **reset)
        self.observation_space = gymnasium.spaces.Text(MAX_OBSERVATION, min_length=0, charset=string.printable)
        self.action_space = gymnasium.spaces.Text(MAX_ACTION, min_length=0, charset=string.printable)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begins an episode. Without a seed the next one of the environment's generator is used."""
        super().reset(seed=seed)
        row: dict[str, Any] = {"seed": seed if seed is not None else int(self.np_random.integers(1 << 31))}
        return _ascii(self.client.reset(**(row | (options or {})))), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Plays an action. It raises EpisodeLost if the environment was lost, because the episode has no reward then."""
        episode = self.client.episode
        before = episode.reward
        try:
            answer = self.client.call(*parse_call(action))
        except ValueError as error:
            answer = f"error: {error}"
        return _ascii(answer), episode.result() - before, episode.done, False, dict(episode.metadata)

    def close(self) -> None:
        self.client.close()


def _ascii(text: str) -> str:
    """Writes other characters as escapes, as JSON does, within the space's length."""
    escaped = text if text.isascii() else json.dumps(text)[1:-1].replace('\\"', '"')
    return "".join(c if c in string.printable else f"\\u{ord(c):04x}" for c in escaped)[:MAX_OBSERVATION]
