"""Clients of csenv's customer-support environments: typed ones, and ones whose actions are functions."""

from .client import CSREnv, CustomerSupportEnv
from .forking import checkpoint, fork, restore
from .models import (
    CSRAction,
    CSRObservation,
    CSRState,
    CustomerSupportAction,
    CustomerSupportObservation,
    CustomerSupportState,
    Fact,
)
from .tools import AsyncToolClient, Episode, EpisodeLost, Tool, ToolClient, list_tools, parse_call

__all__ = [
    "AsyncToolClient",
    "CSRAction",
    "CSREnv",
    "CSRObservation",
    "CSRState",
    "CustomerSupportAction",
    "CustomerSupportEnv",
    "CustomerSupportObservation",
    "CustomerSupportState",
    "Episode",
    "EpisodeLost",
    "Fact",
    "Tool",
    "ToolClient",
    "checkpoint",
    "fork",
    "list_tools",
    "parse_call",
    "restore",
]
