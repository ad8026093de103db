"""Messages of the two environments.

The server's /schema is the authority. Observations and states accept fields that a newer server adds; actions don't, so that a
mistake is detected before it is sent.
"""

from __future__ import annotations

from .schema import (
    Category,
    CSRAction,
    CSRObservation,
    CSRState,
    CustomerSupportObservation,
    CustomerSupportState,
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
]


class CustomerSupportAction(TicketAction):
    """An action on a ticket. The class methods set the fields that each action type uses."""

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
