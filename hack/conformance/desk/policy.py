"""The policy of the support desk, written from the texts of policy.md and conversations.md in scenarios/desk alone.

It shares no code with package desk. The ids in comments are those of the policy's rules. This file
has the sections Returns, Damage and defects, Delivery, Subscriptions, Accounts and Conversations.
"""

from datetime import date, timedelta

from money import (cancel, coupon, double_charge, give_credit, give_goodwill, hand_over, price_drop, refund,
                   refund_status, replace)
from records import Desk, TakenOver, Undecided, add_months, cents, day_of

# Returns


def last_return_day(desk, delivered):
    """RET-1, RET-2, RET-3"""
    last = delivered + desk.days(desk.return_period())
    holidays = (11, 15) <= (delivered.month, delivered.day)
    if holidays and desk.level != "business":
        last = max(last, date(delivered.year + 1, 1, desk.numbers["holiday_day"]))  # RET-4
    return last


def returnable(desk):
    """Returns why the item can't be returned or "", the last day, and whether RET-5 applies."""
    delivered = desk.delivered()
    kind = desk.item["kind"]
    in_eu = desk.customer["region"] == "eu"
    end = delivered + timedelta(14)
    withdrawal = in_eu and desk.today <= end
    if kind == "custom":
        return "custom", None, False  # RET-7
    if kind == "hygiene" and desk.request["Opened"]:
        return "opened", None, False  # RET-8
    if kind == "final_sale":
        return ("", end, withdrawal) if in_eu else ("final sale", None, False)  # RET-6
    last = last_return_day(desk, delivered)
    if in_eu:
        last = max(last, end)
    return "", last, withdrawal


def return_deadline(desk):
    refused, last, _ = returnable(desk)
    if refused:
        desk.tell("kind", refused)
    else:
        desk.tell("last_day", last)


def return_item(desk):
    refused, last, withdrawal = returnable(desk)
    if refused:
        desk.tell("kind", refused)  # RET-11
        return
    if desk.today > last:
        desk.tell("last_day", last)  # RET-11
        return
    amount = desk.price()
    if desk.request["Opened"] and not withdrawal and desk.level != "plus":
        amount = amount * (100 - desk.numbers["restock_percent"]) // 100  # RET-9, GEN-2
    if withdrawal and len(desk.order["items"]) == 1:
        amount += cents(desk.order["delivery_fee"])  # RET-10
    refund(desk, amount)


# Damage and defects


def warehouse_closed(desk):
    """DMG-9"""
    month, day = desk.today.month, desk.today.day
    return (month == 12 and day >= desk.numbers["freeze_day"]) or (month == 1 and day <= 2)


def damaged(desk):
    last = desk.delivered() + desk.days("damage_days")  # DMG-1
    if desk.today > last:
        desk.tell("last_day", last)
    elif desk.request["Misused"]:
        desk.tell("kind", "misuse")  # DMG-7
    elif desk.item["in_stock"] > 0 and desk.request["Wish"] != "refund" and not warehouse_closed(desk):
        replace(desk, [desk.item])  # DMG-3
    else:
        refund(desk, desk.price())


def end_of_warranty(desk, delivered):
    """DMG-4"""
    months = "business_warranty" if desk.level == "business" else "warranty_months"
    return add_months(delivered, desk.numbers[months])


def warranty_end(desk):
    desk.tell("warranty_end", end_of_warranty(desk, desk.delivered()))


def defective(desk):
    delivered = desk.delivered()
    end = end_of_warranty(desk, delivered)
    if desk.today > end:
        desk.tell("warranty_end", end)
    elif desk.request["Misused"]:
        desk.tell("kind", "misuse")  # DMG-7
    elif desk.request["Wish"] == "refund" and desk.today <= delivered + desk.days("return_days"):
        refund(desk, desk.price())  # DMG-6
    elif warehouse_closed(desk):
        refund(desk, desk.price())  # DMG-9
    elif desk.item["in_stock"] > 0:
        replace(desk, [desk.item])
    else:
        give_credit(desk, desk.price(), desk.order_id)  # DMG-6


def wrong_item(desk):
    """DMG-8"""
    if desk.item["in_stock"] > 0 and not warehouse_closed(desk):
        replace(desk, [desk.item])
    else:
        refund(desk, desk.price())


# Delivery


def settle_lost(desk, shipment, signed):
    items = [i for i in desk.order["items"] if i["sku"] in shipment["contents"]]
    price = sum(cents(i["price"]) * i["shipped"] for i in items)
    if price > desk.numbers["logistics_above"]:
        hand_over(desk, "logistics")  # DEL-5
    if signed:
        hand_over(desk, "logistics")  # DEL-4
    if all(i["in_stock"] >= i["shipped"] for i in items) and not warehouse_closed(desk):
        replace(desk, items)  # DEL-2
    else:
        refund(desk, price + cents(desk.order["delivery_fee"]))


def parcel(desk):
    shipment = desk.shipment()
    if shipment["status"] != "in_transit":
        raise Undecided("parcel not in transit")
    period = "lost_days" if desk.customer["region"] == "domestic" else "lost_abroad"  # DEL-1
    lost = desk.after_business_days(day_of(shipment["last_scan"]), period) + timedelta(1)  # GEN-1
    if desk.today < lost:
        desk.tell("tracking", shipment["tracking"])  # DEL-3
        desk.tell("lost_day", lost)
        return
    settle_lost(desk, shipment, signed=False)


def not_found(desk):
    """DEL-4"""
    delivered = desk.delivered()
    act = desk.after_business_days(delivered, "search_days") + timedelta(1)  # GEN-1
    if desk.today < act:
        desk.tell("delivered_day", delivered)
        desk.tell("act_day", act)
        return
    settle_lost(desk, desk.shipment(), desk.shipment()["signed"])


def late(desk):
    """DEL-6"""
    delivered = desk.delivered()
    if desk.order["delivery_service"] != "express":
        desk.tell("service", "standard")
        desk.tell("delivered_day", delivered)
        return
    if delivered <= day_of(desk.order["promised_by"]):
        desk.tell("delivered_day", delivered)
        return
    cause = desk.shipment().get("cause", "")
    fee = cents(desk.order["delivery_fee"])
    if cause not in ("weather", "customs") and fee > 0:
        refund(desk, fee)
    else:
        give_goodwill(desk)
        desk.tell("cause", cause)


def address(desk):
    """DEL-7"""
    if desk.order["status"] == "placed":
        desk.change("change_address", order=desk.order_id, address=desk.request["Value"])
        desk.tell("address", desk.request["Value"])
    elif desk.order["status"] == "packed":
        desk.tell("status", "packed")
    else:
        desk.tell("carrier", desk.shipment()["carrier"])
        desk.tell("tracking", desk.shipment()["tracking"])


def partial(desk):
    """DEL-8"""
    missing = sum(cents(i["price"]) * (i["quantity"] - i["shipped"]) for i in desk.order["items"])
    if missing == 0:
        desk.tell("tracking", desk.shipment()["tracking"])
    elif desk.request["Wish"] == "refund":
        refund(desk, missing)


def duties(desk):
    """DEL-9"""
    duty = cents(desk.shipment().get("duty_charged", 0))
    if desk.order.get("duties") != "prepaid":
        desk.tell("duty", duty)
        return
    if duty == 0:
        raise Undecided("no duty")
    refund(desk, duty)


# Subscriptions


def cancel_subscription(desk):
    subscription = desk.all("Subscriptions")[0]
    last = day_of(subscription["renewed"]) + desk.days("cancel_days")
    if not subscription["used_since_renewal"] and desk.today <= last:
        refund(desk, cents(subscription["monthly_price"]), subscription["subscription_id"])  # SUB-1
        return
    desk.tell("until_day", day_of(subscription["paid_until"]))  # SUB-2


def downgrade(desk):
    """SUB-3"""
    subscription = desk.all("Subscriptions")[0]
    plan = next(p for p in subscription["other_plans"] if p["plan"] == desk.request["Value"])
    difference = cents(subscription["monthly_price"]) - cents(plan["monthly_price"])
    left = (day_of(subscription["paid_until"]) - desk.today).days
    give_credit(desk, difference * left // 30, order_id="")


def outage(desk):
    """SUB-4"""
    hours = desk.all("Outages")[-1]["hours"]
    if hours < desk.numbers["outage_hours"]:
        desk.tell("outage_hours", desk.numbers["outage_hours"])
        return
    begun_days = (hours + 23) // 24
    share = 2 if desk.level == "business" else 1
    price = cents(desk.all("Subscriptions")[0]["monthly_price"])
    give_credit(desk, price * begun_days * share // 30, order_id="")


# Accounts


def data_request(desk):
    hand_over(desk, "privacy" if desk.customer["verified"] else "trust")  # ACC-1, ACC-2


def account_change(desk):
    hand_over(desk, "trust")  # ACC-1, ACC-2


def check_customer(desk, kind):
    """GEN-5"""
    if desk.customer.get("hold") == "fraud_review":
        hand_over(desk, "security")  # ACC-3
    own = [desk.customer["customer_id"], *(desk.customer.get("merged_accounts") or [])]
    if kind not in WITHOUT_ORDER and desk.order["customer_id"] not in own:
        hand_over(desk, "trust")  # ACC-4


WITHOUT_ORDER = {"data_request", "email_change", "merge", "cancel_subscription", "downgrade", "outage"}

# The kinds of requests.
KINDS = {
    "return": return_item, "return_deadline": return_deadline,
    "damaged": damaged, "defective": defective, "warranty_end": warranty_end, "wrong_item": wrong_item,
    "parcel": parcel, "not_found": not_found, "late": late, "address": address, "partial": partial, "duties": duties,
    "double_charge": double_charge, "cancel": cancel, "price_drop": price_drop, "coupon": coupon,
    "refund_status": refund_status,
    "cancel_subscription": cancel_subscription, "downgrade": downgrade, "outage": outage,
    "data_request": data_request, "email_change": account_change, "merge": account_change,
}


# Conversations


def confirmed(change, kind):
    """Whether the customer has to confirm a change."""
    if change.tool in ("cancel_order", "change_address"):
        return True  # CNV-1
    money = change.tool in ("initiate_refund", "issue_credit")
    return money and kind in ("damaged", "defective", "wrong_item", "parcel", "not_found")  # CNV-2


def decide(case):
    """Returns the changes that are right, the facts that the customer must be told (GEN-6), and the
    changes that the customer confirms before."""
    changes, facts, confirmations = [], [], []
    for request in case["requests"]:
        desk = Desk(case, request)
        try:
            check_customer(desk, request["Kind"])
            KINDS[request["Kind"]](desk)
        except TakenOver:
            pass
        changes += desk.changes
        facts += desk.facts
        confirmations += [c for c in desk.changes if case["talks"] and confirmed(c, request["Kind"])]
    return list(dict.fromkeys(changes)), list(dict.fromkeys(facts)), list(dict.fromkeys(confirmations))
