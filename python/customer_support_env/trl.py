"""Environments for TRL's GRPOTrainer(environment_factory=…)."""

from __future__ import annotations

from typing import Any

from .tools import Episode, EpisodeLost, Tool, ToolClient, list_tools

__all__ = ["environment"]


class _Environment:
    """One rollout at a time. TRL offers each public method but reset and get_reward to the model as a tool."""

    _tools: list[Tool]
    _url: str | None
    _token: str | None
    _defaults: dict[str, Any]

    def __init__(self) -> None:
        self._client = ToolClient(self._url, token=self._token, tools=self._tools, **self._defaults)

    def reset(self, **row: Any) -> str:
        """Begins the episode of a row of the data set and returns its task."""
        return self._client.reset(**row)

    def get_reward(self) -> float | None:
        """The episode's reward, or None if the episode was lost: TRL leaves such a rollout out."""
        try:
            return self._client.episode.result()
        except EpisodeLost:
            return None

    @property
    def episode(self) -> Episode:
        """What the rollout's episode has brought so far. TRL doesn't offer properties as tools."""
        return self._client.episode

    def _call(self, name: str, arguments: dict[str, Any]) -> str:
        return self._client.call(name, arguments)


def environment(base_url: str | None = None, *, token: str | None = None, **reset: Any) -> type[_Environment]:
    """Makes a class for environment_factory, with a method for each tool of the server.

    reset has options for every episode, for example task="ticket-resolve". Columns of the data set such as seed, task and
    scenario are options as well; the others are ignored. All generations of a row play the same episode.
    """
    tools = list_tools(base_url, token=token)
    members: dict[str, Any] = {tool.name: tool.function(_Environment._call, method=True) for tool in tools}
    members |= {"_tools": tools, "_url": base_url, "_token": token, "_defaults": reset}
    return type("CustomerSupport", (_Environment,), members)
