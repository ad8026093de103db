"""Plain HTTP: one-shot requests, sessions by id, the Task API."""

import pytest


def test_one_shot_reset_step_and_state_leave_no_session(ticket):
    before = ticket.sessions()
    status, first = ticket.http("POST", "/reset", {"seed": 7, "episode_id": "E", "task": "ticket-resolve"})
    assert status == 200 and first["done"] is False and first["observation"]["task"] == "ticket-resolve"
    status, stepped = ticket.http("POST", "/step", {"action": {"action_type": "classify", "category": "billing"}})
    assert status == 200 and isinstance(stepped["reward"], (int, float)) and isinstance(stepped["done"], bool)
    status, state = ticket.http("GET", "/state")
    assert status == 200 and state["step_count"] == 0
    assert ticket.sessions() == before, "no session remains"


def test_invalid_one_shot_action_is_422(ticket):
    status, answer = ticket.http("POST", "/step", {"action": {"action_type": "dance"}})
    assert status == 422 and answer["detail"]


@pytest.mark.parametrize("where", ["body", "query", "header"])
def test_session_id_makes_http_requests_one_episode(ticket, where):
    session = ticket.create()

    def call(method, path, body=None):
        if where == "query":
            path += "?session_id=" + session
        if where == "body" and body is not None:
            body = body | {"session_id": session}
        headers = {"X-Session-Id": session} if where == "header" or (where == "body" and body is None) else {}
        status, answer = ticket.http(method, path, body, headers)
        assert status == 200, answer
        return answer

    first = call("POST", "/reset", {"seed": 7, "episode_id": "E", "task": "ticket-resolve"})
    stepped = call("POST", "/step", {"action": {"action_type": "classify", "category": "billing", "priority": "high"}})
    assert stepped["observation"]["subject"] == first["observation"]["subject"] and stepped["observation"]["step"] == 1
    state = call("GET", "/state")
    assert (state["episode_id"], state["step_count"], state["seed"]) == ("E", 1, 7)
    with ticket.socket(session) as env:
        assert env.ask("state")["data"] == state, "a socket has the same episode"
    last = call("POST", "/step", {"action": {"action_type": "resolve", "message": "Hello"}})
    assert last["done"] is True and last["metadata"]["outcome"] == "scored"
    assert ticket.rpc("openenv/session/close", session_id=session)["result"]["closed"] is True


def test_one_shot_tool_calls_work_without_a_session(ticket):
    tools = ticket.rpc("tools/list")["result"]["tools"]
    assert all(set(tool) >= {"name", "description", "inputSchema"} and "input_schema" not in tool for tool in tools)
    seen = ticket.rpc("tools/call", name="get_observation", arguments={})["result"]
    assert seen["is_error"] is False and seen["data"]["observation"]["ticket_id"]


def test_mcp_answers_200_to_any_body(ticket):
    for body, code in (({}, -32600), ([], -32700), ({"jsonrpc": "2.0", "id": 1, "method": "no/such"}, -32601)):
        status, answer = ticket.http("POST", "/mcp", body)
        assert status == 200 and answer["jsonrpc"] == "2.0" and answer["error"]["code"] == code and "result" not in answer, answer


def test_task_api_lists_environments_splits_and_tasks(ticket):
    assert ticket.http("GET", "/list_environments") == (200, ["ticket", "ticket-classify", "ticket-resolve", "queue-management"])
    status, splits = ticket.http("GET", "/ticket-resolve/splits")
    assert status == 200 and {s["name"] for s in splits} == {"train", "validation", "test"} and all(s["type"] == s["name"] for s in splits)
    seen = []
    for split in ("train", "validation", "test"):
        number = ticket.http("POST", "/ticket-resolve/num_tasks", {"split": split})[1]["num_tasks"]
        tasks = ticket.http("POST", "/ticket-resolve/tasks", {"split": split})[1]["tasks"]
        assert len(tasks) == number > 0 and [t["index"] for t in tasks] == list(range(number)) and {t["split"] for t in tasks} == {split}
        assert ticket.http("POST", "/ticket-resolve/task", {"split": split, "index": 1})[1]["task"] == tasks[1]
        assert ticket.http("POST", "/ticket-resolve/task_range", {"split": split, "start": 1, "stop": 3})[1]["tasks"] == tasks[1:3]
        seen += [t["scenario"] for t in tasks]
    assert len(set(seen)) == len(seen), "no scenario is in two splits"


def test_task_api_refuses_unknown_environments_and_indexes(ticket):
    assert ticket.http("GET", "/nobody/splits")[0] == 404
    assert ticket.http("POST", "/ticket/task", {"split": "train", "index": 10**6})[0] == 400
    assert ticket.http("POST", "/ticket/task", {"split": "train", "index": 0, "colour": "red"})[0] == 422


def test_entry_of_the_task_api_can_be_reset_to(ticket):
    task = ticket.http("POST", "/ticket-resolve/task", {"split": "train", "index": 3})[1]["task"]
    with ticket.socket() as env:
        def reset(**options):
            return env.ask("reset", {"seed": 7, **options})["data"]["observation"]

        by_entry = reset(**task)
        by_index = reset(task="ticket-resolve", split="train", index=3)
        by_name = reset(task="ticket-resolve", scenario=task["scenario"])
        other = reset(task="ticket-resolve", split="train", index=4)
    assert by_entry == by_index == by_name != other


def test_standard_documents(ticket):
    assert ticket.http("GET", "/health") == (200, {"status": "healthy"})
    status, schema = ticket.http("GET", "/schema")
    assert status == 200 and all(isinstance(schema[part], dict) for part in ("action", "observation", "state"))
    status, api = ticket.http("GET", "/openapi.json")
    assert status == 200 and {"/reset", "/step", "/state", "/mcp"} <= set(api["paths"])
