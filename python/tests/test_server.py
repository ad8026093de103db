"""Episodes on a real server, whose address is in CSENV_TICKET_URL or CSENV_WORKFLOW_URL."""

import json
import os
import urllib.request

import pytest
from customer_support_env import (
    CSRAction,
    CSREnv,
    CSRObservation,
    CustomerSupportAction,
    CustomerSupportEnv,
    CustomerSupportObservation,
)


def server(variable):
    url = os.environ.get(variable)
    if not url:
        pytest.skip(f"{variable} names no server")
    return url


def schema(url):
    with urllib.request.urlopen(url + "/schema", timeout=10) as answer:
        return json.load(answer)


def test_ticket_episode():
    with CustomerSupportEnv(base_url=server("CSENV_TICKET_URL")).sync() as env:
        first = env.reset(seed=7, task="ticket-resolve")
        assert first.observation.subject and not first.done
        assert env.reset(seed=7, task="ticket-resolve") == first
        env.step(CustomerSupportAction.classify(category="billing", priority="high"))
        last = env.step(CustomerSupportAction.resolve("Hello, thank you for your message."))
        assert last.done and last.metadata["outcome"] == "scored"
        assert 0 <= last.metadata["episode_score"] <= 1
        state = env.state()
        assert state.done and state.step_count == 2 and state.seed == 7


def test_workflow_episode():
    with CSREnv(base_url=server("CSENV_WORKFLOW_URL")).sync() as env:
        first = env.reset(seed=7, task="order-inquiry")
        assert first.observation.user_query and first.observation.order_status is None
        last = env.step(CSRAction(action_type="respond_user", payload={"message": "I will look into it."}))
        assert last.observation.history and last.observation.step == 1


@pytest.mark.parametrize(
    ("variable", "action", "observation"),
    [("CSENV_TICKET_URL", CustomerSupportAction, CustomerSupportObservation), ("CSENV_WORKFLOW_URL", CSRAction, CSRObservation)],
)
def test_models_match_the_schema_of_the_server(variable, action, observation):
    served = schema(server(variable))
    names = {name for variant in [served["action"], *served["action"].get("$defs", {}).values()] for name in variant.get("properties", {})}
    missing = set(action.model_fields) - names - {"metadata"}
    assert not missing, f"the server's actions have no {missing}"
    unknown = set(observation.model_fields) - set(served["observation"]["properties"])
    assert not unknown, f"the server's observations have no {unknown}"
