"""Tests without a server."""

import pytest
from customer_support_env import CSRAction, CSREnv, CustomerSupportAction, CustomerSupportEnv, Fact
from pydantic import ValidationError


@pytest.fixture
def tickets():
    return CustomerSupportEnv(base_url="http://server.invalid")


@pytest.mark.parametrize(
    ("action", "wire"),
    [
        (CustomerSupportAction.classify(category="billing"), {"action_type": "classify", "category": "billing"}),
        (CustomerSupportAction.respond("Hello"), {"action_type": "respond", "message": "Hello"}),
        (CustomerSupportAction.resolve(), {"action_type": "resolve"}),
        (
            CustomerSupportAction.resolve("It is $8, for 2.", facts=[{"what": "price", "value": "$8"}, Fact(what="count", value=2)]),
            {"action_type": "resolve", "message": "It is $8, for 2.", "facts": [{"what": "price", "value": "$8"}, {"what": "count", "value": 2}]},
        ),
        (
            CustomerSupportAction.escalate("legal", message="Legal decides.", facts=[{"what": "team", "value": "legal"}]),
            {"action_type": "escalate", "team": "legal", "message": "Legal decides.", "facts": [{"what": "team", "value": "legal"}]},
        ),
        (CustomerSupportAction.escalate("finance", "limit"), {"action_type": "escalate", "team": "finance", "reason": "limit"}),
        (CustomerSupportAction.search("refund"), {"action_type": "search_knowledge_base", "query": "refund"}),
        (CustomerSupportAction.select("T-1"), {"action_type": "select_ticket", "ticket_id": "T-1"}),
    ],
)
def test_actions_contain_only_the_given_fields(tickets, action, wire):
    assert tickets._step_payload(action) == wire


def test_payload_of_a_workflow_action():
    action = CSRAction(action_type="check_payment", payload={"order_id": "LD-1"})
    assert CSREnv(base_url="http://server.invalid")._step_payload(action) == {"action_type": "check_payment", "payload": {"order_id": "LD-1"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"action_type": "dance"},
        {"action_type": "classify", "category": "sports"},
        {"action_type": "resolve", "mesage": "x"},
        {"action_type": "resolve", "facts": [{"what": "colour", "value": "red"}]},
        {"action_type": "resolve", "facts": [{"what": "price", "value": "8", "about": "it"}]},
        {"action_type": "resolve", "facts": [{"what": "price"}]},
    ],
)
def test_invalid_fields_are_refused_before_sending(fields):
    with pytest.raises(ValidationError):
        CustomerSupportAction(**fields)


def test_results_have_metadata_from_either_place(tickets):
    observation = {"task": "ticket-resolve", "subject": "Hello", "brand_new_field": 1}
    outside = tickets._parse_result({"observation": observation, "reward": 1, "done": True, "metadata": {"outcome": "scored"}})
    inside = tickets._parse_result({"observation": observation | {"metadata": {"outcome": "scored"}}, "reward": 1, "done": True})
    for result in (outside, inside):
        assert result.done and result.reward == 1
        assert result.observation.subject == "Hello"
        assert result.observation.metadata == result.metadata == {"outcome": "scored"}
