"""The records of a case, and the terms of the policy (GEN)."""

from calendar import monthrange
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple


class Change(NamedTuple):
    """A call of a tool that changes the records. Empty fields aren't arguments."""

    tool: str
    order: str = ""
    payment: str = ""
    sku: str = ""
    cents: int = 0
    address: str = ""
    team: str = ""


class TakenOver(Exception):
    """A team takes the request over, so that nothing else is decided."""


class Undecided(Exception):
    """The records lack what the policy needs, or have what the policy doesn't provide for."""


def cents(dollars):
    return int((Decimal(str(dollars)) * 100).to_integral_value())


def day_of(text):
    """The day of a time as Go writes it, or None for the zero time."""
    return None if not text or text.startswith("0001") else date.fromisoformat(text[:10])


def add_business_days(day, count):
    """GEN-1"""
    while count > 0:
        day += timedelta(1)
        if day.weekday() < 5:
            count -= 1
    return day


def add_months(day, count):
    """GEN-1"""
    years, month = divmod(day.month - 1 + count, 12)
    year, month = day.year + years, month + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))


class Desk:
    """A request with the records and numbers of its case, and what was decided about it so far."""

    def __init__(self, case, request):
        self.request = request
        self.records = case["records"]
        self.numbers = case["policy"]
        self.today = day_of(case["now"])
        self.customer = self.records["Customer"]
        self.level = self.customer["level"]
        self.order_id = request["OrderID"]
        self.order = next((o for o in self.all("Orders") if o["order_id"] == self.order_id), None)
        self.item = next((i for i in self.order["items"] if i["sku"] == request["SKU"]), None)
        self.changes = []
        self.facts = []

    def all(self, kind):
        return self.records[kind] or []

    def change(self, tool, **arguments):
        self.changes.append(Change(tool, **arguments))

    def tell(self, slot, value):
        self.facts.append((slot, value))

    def days(self, name):
        return timedelta(self.numbers[name])

    def after_business_days(self, day, name):
        return add_business_days(day, self.numbers[name])

    def shipment(self):
        shipments = [s for s in self.all("Shipments") if s["order_id"] == self.order_id]
        if not shipments:
            raise Undecided("no shipment")
        return shipments[0]

    def delivered(self):
        """GEN-3"""
        day = day_of(self.shipment().get("delivered"))
        if not day:
            raise Undecided("not delivered")
        return day

    def payments(self, status, order_id=None):
        order_id = order_id or self.order_id
        return [p for p in self.all("Payments") if p.get("order_id") == order_id and p["status"] == status]

    def price(self):
        return cents(self.item["price"]) * self.item["quantity"]

    def return_period(self):
        """RET-1, RET-2, RET-3: the name of the period's number."""
        return {"plus": "plus_days", "business": "business_days"}.get(self.level, "return_days")
