"""The decisions of package desk against those of policy.py, over cases of the built-in catalogue."""

import copy
import json
import subprocess

import policy
import pytest
from records import Change, cents, day_of

# How many disagreements are printed.
SHOWN = 10


@pytest.fixture(scope="module")
def cases():
    lines = subprocess.run(
        ["go", "run", "./hack/conformance/desk/dump"], stdout=subprocess.PIPE, text=True, check=True,
    ).stdout
    return [json.loads(line) for line in lines.splitlines()]


def changes_of(effects):
    return [
        Change(e["Tool"], e["OrderID"], e["PaymentID"], e["SKU"], cents(e["Amount"]), e["Address"], e["Team"])
        for e in effects or []
    ]


def decided(case):
    """The changes, facts and confirmations of package desk, in the types of policy.py."""
    decision = case["decision"]
    facts = [
        (f["Slot"], day_of(f["Day"]) or cents(f["Amount"]) or f["Days"] or f["Text"]) for f in decision["Facts"] or []
    ]
    return changes_of(decision["Effects"]), facts, changes_of(decision.get("Confirms"))


def disagreement(case):
    """Describes how the two decisions about a case differ, or returns None. Their order is free."""
    about = f"{case['id']}, seed {case['seed']} (rules {', '.join(case['decision']['Rules'])})"
    try:
        expected = policy.decide(case)
    except policy.Undecided as reason:
        return f"{about}: policy.py doesn't decide: {reason}"
    differences = []
    for what, want, got in zip(("changes", "facts", "confirmations"), expected, decided(case), strict=True):
        if sorted(map(str, want)) != sorted(map(str, got)):
            differences.append(f"  {what}\n    policy.py: {show(want)}\n    desk:      {show(got)}")
    return "\n".join([about, *differences]) if differences else None


def show(values):
    return "; ".join(map(str, values)) or "none"


def test_cases_cover_the_policy(cases):
    kinds = {request["Kind"] for case in cases for request in case["requests"]}
    assert kinds == set(policy.KINDS)
    tools = {change.tool for case in cases for change in decided(case)[0]}
    assert len(tools) == 6, tools
    assert len(cases) > 5000


def test_decisions(cases):
    found = [d for d in map(disagreement, cases) if d]
    if found:
        pytest.fail("\n".join([f"{len(found)} of {len(cases)} cases disagree", *found[:SHOWN]]), pytrace=False)


def drop_change(decision):
    decision["Effects"].pop()


def add_change(decision):
    decision["Effects"].append({**decision["Effects"][0], "Tool": "cancel_order"})


def raise_amount(decision):
    next(e for e in decision["Effects"] if e["Amount"])["Amount"] += 0.01


def change_team(decision):
    next(e for e in decision["Effects"] if e["Team"])["Team"] = "billing"


def drop_confirmation(decision):
    decision["Confirms"].pop()


def drop_fact(decision):
    decision["Facts"].pop()


def change_day(decision):
    next(f for f in decision["Facts"] if day_of(f["Day"]))["Day"] = "2001-01-01T00:00:00Z"


@pytest.mark.parametrize("change", [drop_change, add_change, raise_amount, change_team, drop_fact, change_day,
                                    drop_confirmation])
def test_changed_decision_is_reported(cases, change):
    for case in cases:
        changed = copy.deepcopy(case)
        try:
            change(changed["decision"])
        except (AttributeError, IndexError, KeyError, StopIteration, TypeError):
            continue  # this decision has no such value
        assert f"{case['id']}, seed {case['seed']} " in disagreement(changed)
        return
    pytest.fail("no case has such a value")
