"""The servers under test. hack/conformance starts them and passes their addresses in variables."""

import asyncio
import concurrent.futures
import contextlib
import json
import os
import time
import urllib.parse
import urllib.request

import pytest
from openenv.core.generic_client import GenericEnvClient
from websockets.sync.client import connect


def address(name):
    url = os.environ.get("CONFORMANCE_" + name)
    if not url:
        pytest.exit("no servers: start this with `make conformance`", returncode=2)
    return url


class Server:
    """A running server: its URL for clients, and helpers that send requests without a client library."""

    def __init__(self, name):
        self.url = address(name)
        self.ops = os.environ.get("CONFORMANCE_" + name + "_OPS")

    def http(self, method, path, body=None, headers=None):
        """Returns the status and the decoded body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text.startswith(b"{") else text

    def rpc(self, method, **params):
        """Posts a call in OpenEnv's MCP dialect and returns the response."""
        status, answer = self.http("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        assert status == 200 and answer["jsonrpc"] == "2.0" and answer["id"] == 1, answer
        return answer

    def create(self):
        return self.rpc("openenv/session/create")["result"]["session_id"]

    @contextlib.contextmanager
    def socket(self, session_id=None, **options):
        query = f"?session_id={session_id}" if session_id else ""
        with connect(self.url.replace("http", "ws", 1) + "/ws" + query, proxy=None, **options) as ws:
            yield Socket(ws)

    def operations(self, path):
        request = urllib.request.Request(self.ops + path, headers={"Authorization": "Bearer " + os.environ.get("CONFORMANCE_OPS_TOKEN", "")})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)

    def sessions(self):
        return self.operations("/stats")["sessions"]["active"]

    def rollouts(self, tag, instance="", ack=0):
        """Requests a run's segment as the operator does."""
        query = {"tag": tag, "run": "00000000-0000-0000-0000-000000000007", "pass_score": 800000, "instance": instance, "ack": ack}
        return self.operations("/rollouts?" + urllib.parse.urlencode(query))

    def wait_for_sessions(self, number, seconds=60):
        deadline = time.monotonic() + seconds
        while (active := self.sessions()) != number:
            assert time.monotonic() < deadline, f"{active} sessions after {seconds} s, want {number}"
            time.sleep(0.02)


class Socket:
    """A plain WebSocket without a client library."""

    def __init__(self, ws):
        self.ws = ws

    def text(self, message, timeout=30):
        self.ws.send(message if isinstance(message, str) else json.dumps(message))
        return self.ws.recv(timeout=timeout)

    def ask(self, kind, data=None):
        return json.loads(self.text({"type": kind} if data is None else {"type": kind, "data": data}))

    def code(self, kind, data=None):
        """Sends a message and returns the code of the error in the answer, or ""."""
        answer = self.ask(kind, data)
        return answer["data"]["code"] if answer["type"] == "error" else ""


def server_fixture(name):
    return pytest.fixture(scope="session", name=name.lower())(lambda: Server(name))


ticket = server_fixture("TICKET")
workflow = server_fixture("WORKFLOW")
workflow_twin = server_fixture("WORKFLOW_TWIN")
small = server_fixture("SMALL")
brief = server_fixture("BRIEF")
token = server_fixture("TOKEN")
token_pool = server_fixture("TOKEN_POOL")
production = server_fixture("PRODUCTION")
front = server_fixture("FRONT")


@pytest.fixture(scope="session")
def replicas():
    return [Server(f"REPLICA_{i}") for i in range(3)]


@pytest.fixture(scope="session", autouse=True)
def blocked_trainer(request, workflow_twin):
    """A trainer whose event loop is blocked for two minutes by its model, in a separate thread: it neither answers nor sends pings."""
    if not any("blocked_trainer" in item.function.__code__.co_varnames for item in request.session.items):
        yield None
        return

    async def play():
        async with GenericEnvClient(base_url=workflow_twin.url) as env:
            await env.reset(seed=7, task="refund")
            time.sleep(120)  # noqa: ASYNC251, blocking is intended
            assert not (await env.step({"action_type": "check_payment", "payload": {}})).done
            return await env.state()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        yield pool.submit(asyncio.run, play())


@pytest.fixture(scope="session")
def token_headers():
    return {"Authorization": "Bearer " + address("TOKEN_VALUE")}


REPLY = "Hello, thank you for your message. We look into it today and write again tomorrow."

# One episode of each task, as a client plays it that has no access to the expected answers.
EPISODES = {
    "ticket-classify": [{"action_type": "classify", "category": "billing", "priority": "high"}],
    "ticket-resolve": [
        {"action_type": "search_knowledge_base", "query": "refund"},
        {"action_type": "classify", "category": "billing", "priority": "high"},
        {"action_type": "respond", "message": REPLY},
        {"action_type": "resolve", "message": REPLY},
    ],
    "queue-management": [{"action_type": "submit", "category": "technical", "priority": "low", "decision": "escalate", "message": REPLY}] * 40,
    "order-inquiry": [{"action_type": "check_order_status", "payload": {}}] + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "refund": [{"action_type": "check_payment", "payload": {}}] + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "payment-exception": [{"action_type": "escalate_issue", "payload": {}}] + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "case-easy": [{"action_type": "cancel_order", "payload": {}}, {"action_type": "replace_item", "payload": {"sku": "none"}}]
    + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "case-medium": [{"action_type": "ask_customer", "payload": {"message": "What is your favourite colour, please?"}}]
    + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "case-hard": [{"action_type": "issue_credit", "payload": {"amount": "5.00"}}] + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 40,
    "talk-easy": [{"action_type": "tell", "payload": {"message": REPLY, "asks": ["order", "anything_else"]}}]
    + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "talk-medium": [{"action_type": "tell", "payload": {"message": REPLY, "offers": ["issue_credit"]}}, {"action_type": "look_up_policy", "payload": {}}]
    + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 30,
    "talk-hard": [
        {"action_type": "tell", "payload": {"message": REPLY, "confirms": ["initiate_refund"], "amount": "5.00"}},
        {"action_type": "tell", "payload": {"message": REPLY, "facts": [{"what": "next_step", "value": "refused"}]}},
    ]
    + [{"action_type": "respond_user", "payload": {"message": REPLY}}] * 40,
}


@pytest.fixture(scope="session")
def episodes():
    return EPISODES


@pytest.fixture(params=EPISODES)
def task(request):
    return request.param


@pytest.fixture
def server_of_task(task, ticket, workflow):
    return ticket if "ticket" in task or "queue" in task else workflow
