"""Messages of the two environments.

The server's /schema is the authority. Observations and states accept fields that a newer server adds; actions don't, so that a
mistake is detected before it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .schema import (
    Category,
    CSRAction,
    CSRObservation,
    CSRState,
    CustomerSupportObservation,
    CustomerSupportState,
    Fact,
    Priority,
    TicketAction,
)

__all__ = [
    "CSRAction",
    "CSRObservation",
    "CSRState",
    "CustomerSupportAction",
    "CustomerSupportObservation",
    "CustomerSupportState",
    "Fact",
]

# What a message states: {"what": "refund_amount", "value": "$59.40"}, at most 8. docs/facts.md of the repository lists the names.
Facts = Iterable[Fact | Mapping[str, Any]]


class CustomerSupportAction(TicketAction):
    """An action on a ticket. The class methods set the fields that each action type uses."""

    @classmethod
    def classify(cls, category: Category | None = None, priority: Priority | None = None) -> CustomerSupportAction:
        """Sets the category, the priority, or both."""
        return cls(action_type="classify", category=category, priority=priority)

    @classmethod
    def respond(cls, message: str, facts: Facts | None = None) -> CustomerSupportAction:
        """Replies to the customer; the ticket stays open."""
        return cls(action_type="respond", message=message, facts=_checked(facts))

    @classmethod
    def resolve(cls, message: str | None = None, facts: Facts | None = None) -> CustomerSupportAction:
        """Ends the ticket as resolved, with a last reply if a message is given."""
        return cls(action_type="resolve", message=message, facts=_checked(facts))

    @classmethod
    def escalate(
        cls, team: str | None = None, reason: str | None = None, message: str | None = None, facts: Facts | None = None
    ) -> CustomerSupportAction:
        """Ends the ticket by passing it to a team, with a last reply if a message is given."""
        return cls(action_type="escalate", team=team, reason=reason, message=message, facts=_checked(facts))

    @classmethod
    def search(cls, query: str) -> CustomerSupportAction:
        """Searches the articles of the knowledge base."""
        return cls(action_type="search_knowledge_base", query=query)

    @classmethod
    def select(cls, ticket_id: str) -> CustomerSupportAction:
        """Selects a ticket of the queue."""
        return cls(action_type="select_ticket", ticket_id=ticket_id)


def _checked(facts: Facts | None) -> list[Fact] | None:
    return None if facts is None else [Fact.model_validate(fact) for fact in facts]
