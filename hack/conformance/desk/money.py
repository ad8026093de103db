"""The sections Authority (AUT) and Money (MON) of the policy."""

from records import Change, TakenOver, Undecided, add_months, cents, day_of


# Authority


def hand_over(desk, team):
    """AUT-8"""
    desk.changes = [Change("escalate_issue", team=team)]
    desk.facts = [("team", team), ("answer_day", desk.after_business_days(desk.today, "team_days"))]
    raise TakenOver


def is_new(desk):
    return (desk.today - day_of(desk.customer["customer_since"])).days < desk.numbers["new_days"]


def refund_limit(desk):
    limit = desk.numbers["refund_limit"]  # AUT-1
    if is_new(desk):
        limit //= 2  # AUT-4
    if desk.level == "business":
        limit *= 2  # AUT-5
    return limit


def check_refund(desk, amount):
    recent = [r for r in desk.all("Refunds") if (desk.today - day_of(r["at"])).days <= 90]
    if len(recent) >= desk.numbers["many_refunds"]:
        hand_over(desk, "finance")  # AUT-6
    if amount > refund_limit(desk):
        hand_over(desk, "finance")  # AUT-1


def give_credit(desk, amount, order_id):
    """Gives store credit for an order, or for none if order_id is empty."""
    limit = desk.numbers["credit_limit"]  # AUT-3
    if is_new(desk):
        limit //= 2  # AUT-4
    if amount > limit:
        hand_over(desk, "finance")
    if order_id:
        check_charge_back(desk, order_id)
    add_credit(desk, amount, order_id)


def replace(desk, items):
    check_charge_back(desk)
    if sum(cents(i["price"]) * i["shipped"] for i in items) > desk.numbers["replace_limit"]:
        hand_over(desk, "logistics")  # AUT-2
    for item in items:
        desk.change("replace_item", order=desk.order_id, sku=item["sku"])
    desk.tell("ship_day", desk.after_business_days(desk.today, "ship_days"))  # DMG-10


def give_goodwill(desk):
    """AUT-7"""
    if desk.level == "business":
        return
    given = [day_of(c["at"]) for c in desk.all("Credits") if c.get("why") in ("goodwill", "delay")]
    if all(desk.today > add_months(day, 12) for day in given):
        give_credit(desk, desk.numbers["goodwill"], desk.order_id)


# Money


def check_charge_back(desk, order_id=None):
    if desk.payments("charged_back", order_id):
        hand_over(desk, "finance")  # MON-3


def add_refund(desk, amount, payment, order_id, several):
    """The payment is only named if there are several."""
    desk.change("initiate_refund", order=order_id, payment=payment["payment_id"] if several else "", cents=amount)
    desk.tell("refund_amount", amount)
    desk.tell("arrival_day", arrival(desk, desk.today, payment))


def add_credit(desk, amount, order_id):
    desk.change("issue_credit", order=order_id, cents=amount)
    desk.tell("credit_amount", amount)


def arrival(desk, day, payment):
    """MON-7"""
    return desk.after_business_days(day, "card_days" if payment["method"] == "card" else "transfer_days")


def given_before(desk, order_id):
    """MON-6"""
    given = desk.all("Refunds") + desk.all("Credits")
    return sum(cents(g["amount"]) for g in given if g.get("order_id") == order_id)


def refund(desk, amount, order_id=None):
    """Refunds an amount for an order or, by its id, for a subscription."""
    order_id = order_id or desk.order_id
    before = given_before(desk, order_id)
    left = amount - before
    if left <= 0:
        desk.tell("given_before", before)  # MON-6
        return
    check_refund(desk, left)
    check_charge_back(desk, order_id)
    captured = desk.payments("captured", order_id)
    if not captured:
        raise Undecided("nothing captured")
    gifts = [p for p in captured if p["method"] == "gift_card"]
    others = [p for p in captured if p["method"] != "gift_card"]
    if len(others) > 1:
        raise Undecided("two payments")
    if gifts and others:
        money = min(left, cents(others[0]["amount"]))  # MON-5
    else:
        money = left if others else 0  # MON-4
    if money:
        add_refund(desk, money, others[0], order_id, len(captured) > 1)
    if left - money:
        add_credit(desk, left - money, order_id)


def double_charge(desk):
    check_charge_back(desk)  # MON-3
    captured = sorted(desk.payments("captured"), key=lambda p: p["at"])
    second = None
    for i, payment in enumerate(captured):
        for earlier in captured[:i]:
            if (earlier["amount"], earlier["method"]) == (payment["amount"], payment["method"]):
                second = payment
    if second:
        refund_second(desk, second)
        return
    authorised = desk.payments("authorised")
    if authorised:
        tell_hold(desk, authorised[-1])
        return
    desk.tell("paid_amount", sum(cents(p["amount"]) for p in captured))


def refund_second(desk, payment):
    """MON-1"""
    amount = cents(payment["amount"])
    for made in desk.all("Refunds"):
        if made.get("payment_id") != payment["payment_id"] or cents(made["amount"]) != amount:
            continue
        day = arrival(desk, day_of(made["at"]), payment)
        if desk.today > day:
            hand_over(desk, "finance")  # MON-12
        desk.tell("given_before", amount)
        desk.tell("arrival_day", day)
        return
    check_refund(desk, amount)
    add_refund(desk, amount, payment, desk.order_id, several=True)


def tell_hold(desk, payment):
    """MON-2"""
    desk.tell("held_amount", cents(payment["amount"]))
    desk.tell("expiry_day", desk.after_business_days(day_of(payment["at"]), "hold_days"))


def cancel(desk):
    if desk.order["status"] != "placed":
        desk.tell("return_days", desk.numbers[desk.return_period()])  # MON-8
        return
    for item in desk.order["items"]:
        begins = day_of(item.get("production_begins"))
        if item["kind"] == "custom" and begins and desk.today >= begins:
            desk.tell("production_day", begins)  # MON-9
            return
    check_charge_back(desk)
    captured = desk.payments("captured")
    paid = sum(cents(p["amount"]) for p in captured)
    before = given_before(desk, desk.order_id)
    left = paid - before
    if left > 0:
        check_refund(desk, left)
    desk.change("cancel_order", order=desk.order_id)
    if left > 0:
        refund_payments(desk, captured, left)
    elif paid:
        desk.tell("given_before", before)  # MON-6
    for payment in desk.payments("authorised"):
        tell_hold(desk, payment)


def refund_payments(desk, captured, left):
    """Refunds the payments of a cancelled order: cards first (MON-5), gift cards as credit (MON-4)."""
    if len([p for p in captured if p["method"] != "gift_card"]) > 1:
        raise Undecided("cancel, several")
    credit = 0
    for payment in sorted(captured, key=lambda p: p["method"] == "gift_card"):
        amount = min(left, cents(payment["amount"]))
        left -= amount
        if amount <= 0:
            continue
        if payment["method"] == "gift_card":
            credit += amount
        else:
            add_refund(desk, amount, payment, desk.order_id, len(captured) > 1)
    if credit:
        add_credit(desk, credit, desk.order_id)


def price_drop(desk):
    """MON-10"""
    item = desk.item
    drop = (cents(item["price"]) - cents(item["shop_price_today"])) * item["quantity"]
    if drop <= 0 and desk.request["Reason"] == "other_shop":
        desk.tell("price_days", desk.numbers["price_days"])
        return
    if item["kind"] == "final_sale":
        desk.tell("kind", "final sale")
        return
    for credit in desk.all("Credits"):
        if credit.get("order_id") == desk.order_id and credit.get("why") == "price":
            desk.tell("given_before", cents(credit["amount"]))
            return
    last = day_of(desk.order["placed"]) + desk.days("price_days")
    if desk.today > last:
        desk.tell("last_day", last)
    elif drop <= 0:
        desk.tell("shop_price", cents(item["shop_price_today"]))
    else:
        give_credit(desk, drop, desk.order_id)


def coupon(desk):
    """MON-11"""
    last = day_of(desk.order["placed"]) + desk.days("coupon_days")
    if desk.order.get("coupon"):
        desk.tell("coupon", desk.order["coupon"])
    elif desk.today > last:
        desk.tell("last_day", last)
    else:
        price = sum(cents(i["price"]) * i["quantity"] for i in desk.order["items"])
        give_credit(desk, price * desk.numbers["coupon_percent"] // 100, desk.order_id)


def refund_status(desk):
    """MON-12"""
    made = [r for r in desk.all("Refunds") if r.get("order_id") == desk.order_id]
    if len(made) != 1:
        raise Undecided("refunds")
    payments = desk.all("Payments")
    payment = next(p for p in payments
                   if p.get("order_id") == desk.order_id and p["payment_id"] == made[0].get("payment_id"))
    day = arrival(desk, day_of(made[0]["at"]), payment)
    if desk.today > day:
        hand_over(desk, "finance")
    desk.tell("refund_amount", cents(made[0]["amount"]))
    desk.tell("arrival_day", day)
