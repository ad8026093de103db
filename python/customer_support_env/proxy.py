"""A server's environment as one in the process, for stacks that import an Environment and can't take a URL."""

from __future__ import annotations

from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from .client import CSREnv, CustomerSupportEnv
from .models import (
    CSRAction,
    CSRObservation,
    CSRState,
    CustomerSupportAction,
    CustomerSupportObservation,
    CustomerSupportState,
)
from .tools import endpoint, session_url

__all__ = ["TicketEnvironment", "WorkflowEnvironment"]


class _Proxy(Environment[Any, Any, Any]):
    SUPPORTS_CONCURRENT_SESSIONS = True
    CLIENT: type[Any]

    def __init__(self, base_url: str | None = None, *, token: str | None = None, **reset: Any) -> None:
        super().__init__()
        self.url, _ = endpoint(base_url, token)
        self._reset = reset
        self._client = self.CLIENT(base_url=session_url(base_url, token)).sync()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Any:
        """Begins an episode of the session."""
        given = {"seed": seed, "episode_id": episode_id, **kwargs}
        result = self._client.reset(**{key: value for key, value in given.items() if value is not None} | self._reset)
        return result.observation

    def step(self, action: Any, timeout_s: float | None = None, **kwargs: Any) -> Any:
        """Plays an action. The observation has the reward, whether the episode is done, and at its end the score as metadata."""
        return self._client.step(action).observation

    @property
    def state(self) -> Any:
        """The state of the session's episode."""
        return self._client.state()

    def get_metadata(self) -> EnvironmentMetadata:
        """What the server is."""
        return EnvironmentMetadata(name=type(self).__name__, description=f"A session of {self.url}", version="1")

    def close(self) -> None:
        """Ends the session."""
        self._client.close()


class TicketEnvironment(_Proxy):
    """One session with the ticket environment. reset options given here are those of every episode."""

    CLIENT = CustomerSupportEnv
    ACTION_CLS, OBSERVATION_CLS, STATE_CLS = CustomerSupportAction, CustomerSupportObservation, CustomerSupportState


class WorkflowEnvironment(_Proxy):
    """One session with the workflow environment."""

    CLIENT = CSREnv
    ACTION_CLS, OBSERVATION_CLS, STATE_CLS = CSRAction, CSRObservation, CSRState
