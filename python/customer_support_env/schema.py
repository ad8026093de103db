"""Fields of the messages of both environments. "make generate" writes them: don't edit it."""

from __future__ import annotations

from typing import Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field

Category = Literal["billing", "shipping", "technical", "general"]
Decision = Literal["resolve", "escalate"]
Priority = Literal["low", "medium", "high", "urgent"]


class Fact(BaseModel):
    """One of the facts of an action."""

    model_config = ConfigDict(extra="forbid")

    what: Literal[
        "refund_amount",
        "credit_amount",
        "given_before",
        "charged_amount",
        "held_amount",
        "amount_in_question",
        "price",
        "answer_by",
        "arrives_by",
        "done_by",
        "ships_by",
        "last_day",
        "starts_on",
        "delivered_on",
        "period",
        "threshold",
        "step_time",
        "count",
        "limit",
        "property",
        "team",
        "next_step",
        "reason",
        "advice",
        "needed",
        "data_kept",
        "reference",
        "carrier",
        "place",
        "control",
    ]
    value: str | int | float


class TicketAction(Action):
    """An action. Set only the fields that the action type uses."""

    action_type: Literal["classify", "respond", "resolve", "escalate", "search_knowledge_base", "select_ticket", "submit"]
    category: Category | None = None
    decision: Decision | None = None
    facts: list[Fact] | None = None
    message: str | None = None
    priority: Priority | None = None
    query: str | None = None
    reason: str | None = None
    team: str | None = None
    ticket_id: str | None = None


class CustomerSupportObservation(Observation):
    """What the agent sees. A field is None where it doesn't apply."""

    model_config = ConfigDict(extra="allow")

    task: str = ""
    ticket_id: str = ""
    now: str = ""
    customer_name: str = ""
    company: str = ""
    customer_since: str = ""
    account_level: str = ""
    language: str = ""
    subject: str = ""
    description: str = ""
    attachments: list[dict[str, str]] = Field(default_factory=list)
    conversation_history: list[dict[str, Any]] = Field(default_factory=list)
    status: str = ""
    score: float | None = None
    step: int = 0
    max_steps: int = 0
    allowed_actions: list[str] = Field(default_factory=list)
    feedback: str = ""
    knowledge_base: list[dict[str, str]] | None = None
    customer_mood: str | None = None
    clock_minutes: int | None = None
    minutes_left: int | None = None
    escalations_left: int | None = None
    queue: list[dict[str, Any]] | None = None


class CustomerSupportState(State):
    """The state of an episode."""

    seed: int = 0
    task: str = ""
    ticket_id: str = ""
    status: str = ""
    done: bool = False
    max_steps: int = 0
    reward_mode: str = ""
    invalid_actions: int = 0
    pressure: bool = False
    clock_minutes: int = 0


class CSRAction(Action):
    """An action. Set only the fields that the action type uses."""

    action_type: Literal[
        "check_order_status",
        "check_payment",
        "initiate_refund",
        "escalate_issue",
        "check_shipment",
        "look_up_customer",
        "look_up_policy",
        "ask_customer",
        "replace_item",
        "issue_credit",
        "cancel_order",
        "change_address",
        "respond_user",
        "tell",
    ]
    payload: dict[str, Any] | None = None


class CSRObservation(Observation):
    """What the agent sees. A field is None where it doesn't apply."""

    model_config = ConfigDict(extra="allow")

    task: str = ""
    now: str = ""
    customer_name: str = ""
    account_level: str = ""
    language: str = ""
    user_query: str = ""
    order_status: str | None = None
    payment_status: str | None = None
    history: list[dict[str, Any]] = Field(default_factory=list)
    last_result: dict[str, Any] | None = None
    step: int = 0
    max_steps: int = 0
    minutes_used: int = 0


class CSRState(State):
    """The state of an episode."""

    seed: int = 0
    task: str = ""
    done: bool = False
    max_steps: int = 0
    reward_mode: str = ""
    invalid_actions: int = 0
