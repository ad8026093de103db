"""Typed OpenEnv client of csenv's customer-support environments."""

from .client import CSREnv, CustomerSupportEnv
from .models import (
    CSRAction,
    CSRObservation,
    CSRState,
    CustomerSupportAction,
    CustomerSupportObservation,
    CustomerSupportState,
)

__all__ = [
    "CSRAction",
    "CSREnv",
    "CSRObservation",
    "CSRState",
    "CustomerSupportAction",
    "CustomerSupportEnv",
    "CustomerSupportObservation",
    "CustomerSupportState",
]
