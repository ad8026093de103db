"""Messages of the two environments.

The server's /schema is the authority. Observations and states accept fields that a newer server adds; actions don't, so that a
mistake is detected before it is sent.
"""

from __future__ import annotations

from typing import Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import ConfigDict, Field

Category = Literal["billing", "shipping", "technical", "general"]
Priority = Literal["low", "medium", "high", "urgent"]


class CustomerSupportAction(Action):
    """An action on a ticket. Set only the fields that the action type uses: the class methods do this."""

    action_type: Literal["classify", "respond", "resolve", "escalate", "search_knowledge_base", "select_ticket", "submit"]
    category: Category | None = None
    priority: Priority | None = None
    message: str | None = None
    team: str | None = None
    reason: str | None = None
    query: str | None = None
    ticket_id: str | None = None
    decision: Literal["resolve", "escalate"] | None = None

    @classmethod
    def classify(cls, category: Category | None = None, priority: Priority | None = None) -> CustomerSupportAction:
        """Sets the category, the priority, or both."""
        return cls(action_type="classify", category=category, priority=priority)

    @classmethod
    def respond(cls, message: str) -> CustomerSupportAction:
        """Replies to the customer; the ticket stays open."""
        return cls(action_type="respond", message=message)

    @classmethod
    def resolve(cls, message: str | None = None) -> CustomerSupportAction:
        """Ends the ticket as resolved."""
        return cls(action_type="resolve", message=message)

    @classmethod
    def escalate(cls, team: str | None = None, reason: str | None = None) -> CustomerSupportAction:
        """Ends the ticket by passing it to a team."""
        return cls(action_type="escalate", team=team, reason=reason)

    @classmethod
    def search(cls, query: str) -> CustomerSupportAction:
        """Searches the articles of the knowledge base."""
        return cls(action_type="search_knowledge_base", query=query)

    @classmethod
    def select(cls, ticket_id: str) -> CustomerSupportAction:
        """Selects a ticket of the queue."""
        return cls(action_type="select_ticket", ticket_id=ticket_id)


class CustomerSupportObservation(Observation):
    """The observation of a ticket."""

    model_config = ConfigDict(extra="allow")

    task: str = ""
    ticket_id: str = ""
    customer_name: str = ""
    company: str = ""
    account_level: str = ""
    language: str = ""
    subject: str = ""
    description: str = ""
    attachments: list[dict[str, str]] = Field(default_factory=list)
    conversation_history: list[dict[str, str]] = Field(default_factory=list)
    status: str = ""
    score: float | None = None
    step: int = 0
    max_steps: int = 0
    allowed_actions: list[str] = Field(default_factory=list)
    feedback: str = ""
    knowledge_base: list[dict[str, str]] | None = None
    queue: list[dict[str, Any]] | None = None


class CustomerSupportState(State):
    """The state of a ticket's episode."""

    seed: int = 0
    task: str = ""
    ticket_id: str = ""
    status: str = ""
    done: bool = False
    max_steps: int = 0


class CSRAction(Action):
    """A tool call on a case. The tools from check_shipment to change_address belong to the tasks case-easy, case-medium and case-hard."""

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
    ]
    payload: dict[str, Any] | None = None


class CSRObservation(Observation):
    """The observation of a case. A status is None until it is looked up."""

    model_config = ConfigDict(extra="allow")

    task: str = ""
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


class CSRState(State):
    """The state of a case's episode."""

    seed: int = 0
    task: str = ""
    done: bool = False
    max_steps: int = 0
