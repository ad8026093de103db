"""Clients of the two environments. AutoEnv finds the classes of the ticket environment by name."""

from __future__ import annotations

from typing import Any, TypeVar

from openenv.core.client_types import StepResult
from openenv.core.env_server.types import Observation

from .models import (
    CSRAction,
    CSRObservation,
    CSRState,
    CustomerSupportAction,
    CustomerSupportObservation,
    CustomerSupportState,
)
from .moving import MovingClient

__all__ = [
    "CSRAction",
    "CSREnv",
    "CSRObservation",
    "CustomerSupportAction",
    "CustomerSupportEnv",
    "CustomerSupportObservation",
]

ObsT = TypeVar("ObsT", bound=Observation)


def _payload(action: CustomerSupportAction | CSRAction) -> dict[str, Any]:
    """Encodes an action without its unset fields: the server treats null and absent fields alike."""
    return action.model_dump(exclude_none=True, exclude_defaults=True) | {"action_type": action.action_type}


def _result(payload: dict[str, Any], observation: type[ObsT]) -> StepResult[ObsT]:
    metadata = payload.get("metadata") or payload["observation"].get("metadata") or {}
    seen = observation.model_validate(
        payload["observation"] | {"done": payload["done"], "reward": payload["reward"], "metadata": metadata}
    )
    return StepResult(observation=seen, reward=payload["reward"], done=payload["done"], metadata=metadata)


class CustomerSupportEnv(MovingClient[CustomerSupportAction, CustomerSupportObservation, CustomerSupportState]):
    """One session with the ticket environment.

    reset accepts, in addition to seed and episode_id: task (ticket-classify, ticket-resolve, queue-management), scenario, split, index and reward_mode (dense, terminal).
    """

    def _step_payload(self, action: CustomerSupportAction) -> dict[str, Any]:
        return _payload(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CustomerSupportObservation]:
        return _result(payload, CustomerSupportObservation)

    def _parse_state(self, payload: dict[str, Any]) -> CustomerSupportState:
        return CustomerSupportState.model_validate(payload)


class CSREnv(MovingClient[CSRAction, CSRObservation, CSRState]):
    """One session with the workflow environment. reset accepts the same options; its tasks are order-inquiry, refund and payment-exception."""

    def _step_payload(self, action: CSRAction) -> dict[str, Any]:
        return _payload(action)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CSRObservation]:
        return _result(payload, CSRObservation)

    def _parse_state(self, payload: dict[str, Any]) -> CSRState:
        return CSRState.model_validate(payload)
