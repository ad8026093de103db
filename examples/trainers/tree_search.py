"""Tree search by forks: each way to settle a case is tried in a copy of the session, and the best one counts."""

import json
import os
import random
import re
import statistics

from customer_support_env import ToolClient, list_tools
from common import report

URL = os.environ.get("CSENV_WORKFLOW_URL")  # or else CSENV_URL
CASES, DEPTH = 40, 1
TOPICS = "returns", "damage", "delivery", "money", "authority"
LETTER = "Dear customer,\n\nI have looked into order {order} and settled it today: {done}. You will hear from us within 3 business days.\n\nKind regards"
AMOUNTS = {"initiate_refund": "refund_amount", "issue_credit": "credit_amount"}  # what they tell the customer


def look_up(client: ToolClient, task: str) -> dict[str, str]:
    """Looks up what the task names, and returns what was found."""
    calls = [("look_up_customer", {}), *(("look_up_policy", {"topic": topic}) for topic in TOPICS)]
    if order := re.search(r"LD-\d+", task):
        calls += [(name, {"order_id": order[0]}) for name in ("check_order_status", "check_payment", "check_shipment")]
    answers = " ".join(client.call(name, arguments) for name, arguments in calls)
    return {"order_id": "", "payment_id": "", "sku": "", "amount": "10.00"} | dict(re.findall(r'"(order_id|payment_id|sku|amount)": "([^"]+)"', answers))


def settlements(found: dict[str, str]) -> list[tuple[str, dict[str, str]]]:
    """What the policy may do before it writes."""
    tools = {"initiate_refund": "order_id payment_id amount", "replace_item": "order_id sku", "issue_credit": "order_id amount", "cancel_order": "order_id"}
    changes = [(tool, {name: found[name] for name in names.split()}) for tool, names in tools.items()]
    return [*changes, ("escalate_issue", {"team": "finance", "reason": "The case needs an approval."})]


def write(client: ToolClient, found: dict[str, str], way: tuple[str, dict[str, str]] | None) -> float:
    """Tells the customer what was done, in words and as facts, and returns the score."""
    tool, given = way or ("", {})
    facts = [{"what": AMOUNTS[tool], "value": given["amount"]}] if tool in AMOUNTS else []
    if "team" in given:
        facts = [{"what": "team", "value": given["team"]}, {"what": "answer_by", "value": "3 business days"}]
    done = json.dumps(way) if way else "no change"
    client.call("respond_user", {"message": LETTER.format(order=found["order_id"], done=done), "facts": facts})
    return client.episode.score


def search(client: ToolClient, found: dict[str, str], depth: int, done: tuple[str, dict[str, str]] | None = None) -> float:
    ways = settlements(found) if depth else []
    scores = []
    for copy, way in zip(client.fork(1 + len(ways)), [None, *ways]):
        with copy:
            if way:
                copy.call(*way)
                scores.append(search(copy, found, depth - 1, way))
            else:
                scores.append(write(copy, found, done))
    return max(scores)


def play(seed: int, searching: bool) -> float:
    with ToolClient(URL, tools=tools, task="case-medium") as client:
        found = look_up(client, client.reset(seed=seed))
        if searching:
            return search(client, found, DEPTH)
        way = random.Random(seed).choice([None, *settlements(found)])
        if way:
            client.call(*way)
        return write(client, found, way)


tools = list_tools(URL)
once, best = (statistics.mean(play(seed, searching) for seed in range(CASES)) for searching in (False, True))
print(f"{CASES} cases: mean score {once:.3f} in one attempt, {best:.3f} by search")
assert best > once
report("openenv", 2 * CASES)
