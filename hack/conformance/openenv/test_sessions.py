"""Sessions: creation, attachment, refusal, close and idle timeout."""

import asyncio
import json
import time

import pytest
from openenv.core.generic_client import GenericEnvClient
from websockets.exceptions import ConnectionClosed


def assert_refused(server, session_id):
    with server.socket(session_id) as other:
        answer = other.ask("state")
        assert answer["type"] == "error" and answer["data"]["code"] == "SESSION_ERROR", answer
        with pytest.raises(ConnectionClosed) as closed:
            other.ws.recv(timeout=10)
        assert closed.value.rcvd.code == 1000


def test_session_is_attached_to_by_its_id_and_outlives_the_connection(ticket):
    session = ticket.create()
    with ticket.socket(session) as first:
        first.ask("reset", {"seed": 7, "task": "ticket-resolve"})
        first.ask("step", {"action_type": "classify", "category": "billing"})
    with ticket.socket(session) as second:
        assert second.ask("state")["data"]["step_count"] == 1
    assert ticket.rpc("openenv/session/close", session_id=session)["result"] == {"session_id": session, "closed": True}
    assert_refused(ticket, session)


def test_second_attachment_is_refused_and_the_first_continues(ticket):
    session = ticket.create()
    with ticket.socket(session) as first:
        first.ask("reset", {"seed": 7})
        assert_refused(ticket, session)
        assert first.ask("state")["data"]["step_count"] == 0
    ticket.rpc("openenv/session/close", session_id=session)


def test_unknown_session_is_refused(ticket):
    assert_refused(ticket, "nobody-has-this-id")


def test_close_of_an_attached_session_waits_for_the_connection_to_end(small):
    session = small.create()
    with small.socket(session) as attached:
        attached.ask("reset", {"seed": 7, "task": "ticket-resolve"})
        assert small.rpc("openenv/session/close", session_id=session)["result"] == {"session_id": session, "closed": False, "closing": True}
        assert_refused(small, session)
        assert attached.code("step", {"action_type": "classify", "category": "billing"}) == ""
        assert small.sessions() == 1
    small.wait_for_sessions(0)
    assert small.rpc("openenv/session/close", session_id=session)["error"]["code"] == -32602


def test_socket_has_one_session_that_ends_with_it(ticket):
    before = ticket.sessions()
    with ticket.socket() as owner:
        mine = owner.ask("mcp", {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create", "params": {}})["data"]["result"]["session_id"]
        assert mine == owner.ask("mcp", {"jsonrpc": "2.0", "id": 2, "method": "openenv/session/create", "params": {}})["data"]["result"]["session_id"]
        ticket.wait_for_sessions(before + 1)
    ticket.wait_for_sessions(before)
    assert_refused(ticket, mine)


def test_too_many_sessions_are_refused_with_capacity_reached(small):
    with small.socket() as holder:
        holder.ask("reset", {"seed": 1})
        refused = GenericEnvClient(base_url=small.url).sync()
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            refused.reset(seed=1)
        refused.close()
        error = small.rpc("openenv/session/create")["error"]
        assert error["code"] == -32000 and error["data"] == {"active_sessions": 1, "max_sessions": 1}
        assert holder.ask("state")["type"] == "state"
    small.wait_for_sessions(0)


@pytest.mark.parametrize("wait", [0, 0.5, 3])
def test_client_that_waits_before_it_sends_gets_capacity_reached(small, wait):
    async def play():
        refused = GenericEnvClient(base_url=small.url)
        await refused.connect()
        await asyncio.sleep(wait)
        try:
            with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
                await refused.reset(seed=1)
        finally:
            await refused.close()

    with small.socket() as holder:
        holder.ask("reset", {"seed": 1})
        asyncio.run(play())
        with small.socket() as other:
            time.sleep(wait)
            data = other.ask("reset", {"seed": 1})["data"]
            assert data["code"] == "CAPACITY_REACHED" and (data["active_sessions"], data["max_sessions"]) == (1, 1)
    small.wait_for_sessions(0)


def test_new_session_beyond_capacity_gets_capacity_reached(small):
    async def play():
        async with GenericEnvClient(base_url=small.url) as env:
            await env.reset(seed=1)
            other = await env.new_session()
            with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
                await other.reset(seed=2)
            assert (await env.state())["seed"] == 1

    asyncio.run(play())
    small.wait_for_sessions(0)


def test_close_then_reopen_at_capacity_one_is_never_refused_async(small):
    async def play():
        for seed in range(50):
            async with GenericEnvClient(base_url=small.url) as env:
                await env.reset(seed=seed)

    asyncio.run(play())


def test_close_then_reopen_at_capacity_one_is_never_refused_sync(small):
    for seed in range(50):
        with GenericEnvClient(base_url=small.url).sync() as env:
            env.reset(seed=seed)


def test_slot_of_a_disconnected_client_is_freed_immediately(small):
    for _ in range(10):
        with small.socket() as gone:
            gone.ask("reset", {"seed": 1})
            gone.ws.socket.shutdown(2)
        small.wait_for_sessions(0)
        with small.socket() as env:
            assert env.ask("state")["type"] == "state"
        small.wait_for_sessions(0)


def test_idle_session_ends_with_its_connection_and_a_reason(brief):
    with brief.socket() as idle:
        idle.ask("reset", {"seed": 1})
        started = time.monotonic()
        with pytest.raises(ConnectionClosed) as closed:
            idle.ws.recv(timeout=15)
        assert time.monotonic() - started > 1.5
        assert closed.value.rcvd.code in (1000, 1001) and "idle" in closed.value.rcvd.reason
    brief.wait_for_sessions(0)


def test_unattached_session_ends_when_idle_and_an_attached_one_stays(brief):
    lonely, attached = brief.create(), brief.create()
    with brief.socket(attached) as kept:
        kept.ask("reset", {"seed": 1})
        brief.wait_for_sessions(1, seconds=15)
        time.sleep(3)
        assert kept.ask("state")["type"] == "state"
        assert_refused(brief, lonely)
        brief.rpc("openenv/session/close", session_id=attached)
    brief.wait_for_sessions(0)


def test_message_of_16_mib_is_accepted_and_a_larger_one_closes_with_1009(ticket):
    def message(size):
        empty = json.dumps({"type": "reset", "data": {"seed": 7, "prompt": ""}})
        return empty.replace('"prompt": ""', '"prompt": "' + "x" * (size - len(empty)) + '"')

    limit = 16 << 20
    with ticket.socket(compression=None, max_size=None) as env:
        assert len(message(limit)) == limit and json.loads(env.text(message(limit)))["type"] == "observation"
        with pytest.raises(ConnectionClosed) as closed:
            env.text(message(limit + 1))
            env.ws.recv(timeout=10)
        assert closed.value.rcvd.code == 1009
    with GenericEnvClient(base_url=ticket.url).sync() as env:
        assert env.reset(seed=7, prompt="x" * (limit - 1000)).observation["ticket_id"]


def test_client_whose_event_loop_is_blocked_for_120_s_continues(blocked_trainer):
    """The fixture blocks it from the start of the suite."""
    assert blocked_trainer.result()["step_count"] == 1


def test_messages_sent_back_to_back_are_answered_in_order(ticket):
    with ticket.socket() as env:
        for seed in range(100):
            env.ws.send(json.dumps({"type": "reset", "data": {"seed": seed}}))
            env.ws.send(json.dumps({"type": "state"}))
        for seed in range(100):
            assert json.loads(env.ws.recv(timeout=10))["type"] == "observation"
            assert json.loads(env.ws.recv(timeout=10))["data"]["seed"] == seed


@pytest.mark.parametrize("text", ["{bad", "", "[]", "7", "null", '{"type":"ping"}', "{}", '{"type":"step"}', '{"type":"state","data":{}}', '{"type":"reset","data":null}', '{"type":"mcp"}'])
def test_wrong_message_is_one_error_and_the_session_continues(ticket, text):
    with ticket.socket() as env:
        env.ask("reset", {"seed": 7})
        assert json.loads(env.text(text))["type"] == "error"
        assert env.ask("state")["data"]["seed"] == 7
