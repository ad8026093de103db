"""Results in a bucket of versitygw, a third-party server, read back with AWS's own client."""

import base64
import concurrent.futures
import json
import signal
import threading

import pytest
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.asymmetric import ed25519


def test_every_episode_is_stored_and_read_back(gateway, player):
    p = player()
    run = p.play(gateway, gateway.url("support"))
    assert (run.code, run.said) == (0, "") and run.condition("ResultsStored").startswith("True/Stored"), run.said
    plan, records = gateway.manifest("support")["plan"], gateway.records("support")
    assert gateway.stored("support") == list(range(p.episodes)) and plan["shards"] == 2
    # The receipts are verified by the procedure of docs/results.md.
    key = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(plan["ledgerKey"]))
    for record in records:
        receipt = base64.b64decode(record["receipt"])
        key.verify(receipt[-64:], b"csenv receipt v1\n" + receipt[:-64])
        assert record["run"] == plan["run"] and record["turns"] and record["outcome"] == "scored"

    url = gateway.url("support")
    listed = json.loads(gateway.csenv("episodes", "probe", "--results", url, "-o", "json"))
    assert [e["index"] for e in listed] == list(range(p.episodes))
    assert {e["index"]: e["score"] for e in listed} == {r["index"]: r["score"] for r in records}
    stored = json.loads(gateway.csenv("results", "probe", "--results", url, "-o", "json"))
    for figure in ("score", "passRate", "tasks", "categories"):
        assert stored["status"][figure] == run.status[figure]
    assert "OBSERVATIONS" in gateway.csenv("transcript", "probe", "7", "--results", url)
    regraded = [json.loads(line) for line in gateway.csenv("regrade", url).splitlines()]
    assert sorted((r["index"], r["score"]) for r in regraded) == sorted((r["index"], r["score"]) for r in records)


def test_the_same_run_again_plays_nothing(gateway, player, agents):
    agent = agents()
    p = player(agent)
    first = p.play(gateway, gateway.url("support"))
    objects = gateway.keys("support")
    second = p.play(gateway, gateway.url("support"))
    assert (first.code, second.code) == (0, 0) and second.figures == first.figures
    assert len(agent.asked) == p.episodes and gateway.keys("support") == objects
    assert f"{p.episodes} episodes reused from" in second.said


def test_a_killed_player_resumes(gateway, player, agents):
    agent = agents(15)
    p = player(agent)
    killed = p.start(gateway, gateway.url("killed"))
    gateway.await_stored("killed", 15)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    before = gateway.stored("killed")
    assert len(before) == 15
    agent.let(1 << 30)
    agent.asked.clear()
    resumed = p.play(gateway, gateway.url("killed"))
    assert resumed.code == 0 and "15 episodes reused from" in resumed.said
    assert {*agent.asked} == {agent.id_of(r) for r in gateway.records("killed") if r["index"] not in before}
    assert gateway.stored("killed") == list(range(p.episodes))
    assert resumed.figures == p.play(gateway, gateway.url("undisturbed")).figures


def test_a_killed_runner_resumes(gateway, player, agents, pool):
    p = player(agents(), parallelism=1)
    whole = p.play(gateway, gateway.url("whole"))
    pool.plan(gateway.manifest("whole")["plan"])
    agent = agents(15)
    runner = pool.runner(gateway, gateway.url("run"), agent)
    gateway.await_stored("run", 15)
    # The pod that graded ends too, so its results exist only in the bucket.
    runner.kill()
    pool.process.kill()
    pool.process.wait(30)
    runner.wait(30)
    before = gateway.stored("run")
    pool.start()
    agent.let(1 << 30)
    agent.asked.clear()
    summary = pool.finish(pool.runner(gateway, gateway.url("run"), agent))
    assert summary["stored"] == {"episodes": p.episodes}
    assert {*agent.asked} == {agent.id_of(r, pool.credential) for r in gateway.records("run") if r["index"] not in before} and len(before) == 15
    assert gateway.stored("run") == list(range(p.episodes))
    assert {r["index"]: r["score"] for r in gateway.records("run")} == {r["index"]: r["score"] for r in gateway.records("whole")}
    stored = json.loads(gateway.csenv("results", "run", "--results", gateway.url("run"), "-o", "json"))["status"]
    assert {f: stored[f] for f in ("score", "tasks")} == {f: whole.status[f] for f in ("score", "tasks")}


def test_two_players_of_a_run_overwrite_nothing(gateway, player, agents):
    """Both found the bucket empty, so both write the same segments first."""
    agent = agents(0)
    p = player(agent, parallelism=1)
    both = [p.start(gateway, gateway.url("support")) for _ in range(2)]
    agent.await_held(8)
    agent.let(1 << 30)
    runs = [p.finish(process) for process in both]
    assert [run.code for run in runs] == [0, 0] and runs[0].figures == runs[1].figures
    assert gateway.stored("support") == sorted([*range(p.episodes)] * 2)
    listed = json.loads(gateway.csenv("episodes", "probe", "--results", gateway.url("support"), "-o", "json"))
    assert [e["index"] for e in listed] == list(range(p.episodes))
    # The server supports conditional writes.
    with pytest.raises(ClientError, match="PreconditionFailed"):
        gateway.s3.put_object(Bucket="evals", Key=gateway.keys("support")[0], Body=b"", IfNoneMatch="*")


def test_more_objects_than_a_page_lists(gateway, player):
    p = player(trials=55, parallelism=1)
    run = p.play(gateway, gateway.url("few"))
    folder = gateway.keys("few")[0].split("/")[1]
    client = gateway.s3
    client.put_object(Bucket="evals", Key=f"many/{folder}/manifest.json", Body=json.dumps(gateway.manifest("few")).encode())
    with concurrent.futures.ThreadPoolExecutor(8) as workers:
        for n, line in enumerate(gateway.lines("few"), 1):
            workers.submit(client.put_object, Bucket="evals", Key=f"many/{folder}/shard-00000/{n:06}.jsonl", Body=line.encode() + b"\n")
    assert len(gateway.keys("many")) == p.episodes + 1 > 1000
    listed = json.loads(gateway.csenv("episodes", "probe", "--results", gateway.url("many"), "-o", "json"))
    assert sorted(e["index"] for e in listed) == list(range(p.episodes))
    again = p.play(gateway, gateway.url("many"))
    assert again.code == 0 and f"{p.episodes} episodes reused from" in again.said and again.figures == run.figures
    assert len(gateway.keys("many")) == p.episodes + 1


REFUSALS = {
    "a wrong secret": ({}, {"AWS_SECRET_ACCESS_KEY": "guessed"}, "the store rejects the credentials: correct them: SignatureDoesNotMatch"),
    "an unknown key": ({}, {"AWS_ACCESS_KEY_ID": "nobody"}, "No user exists with the provided access key ID"),
    "no credentials": ({}, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "there are no credentials: set the variables of docs/results.md"),
    "no bucket": ({"bucket": "none"}, {}, "there is no such bucket: create it or correct its name"),
    "a wrong region": ({"region": "eu-west-1"}, {}, "the bucket is in another region: set region in the URL"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusing_bucket_is_reported_before_the_first_episode(gateway, player, agents, case):
    place, environment, want = REFUSALS[case]
    agent = agents()
    run = player(agent).play(gateway, gateway.url("support", **place), **environment)
    assert run.code == 2 and run.status is None and want in run.said and not agent.asked, run.said
    assert gateway.secret not in run.said and "guessed" not in run.said and run.took < 40


# How a server is unavailable, and the expected message.
AWAY = {
    "dead": "the address does not answer: start the store or correct its address", "hanging": "the store does not answer in time: check whether it hangs",
    "read-only": "the credentials need permission to list, read and create objects",
}


@pytest.mark.parametrize("state", AWAY)
def test_an_unavailable_server_is_reported_before_the_first_episode(gateway, player, agents, state):
    agent = agents()
    gateway.break_down(state)
    run = player(agent).play(gateway, gateway.url("support"))
    assert run.code == 2 and AWAY[state] in run.said and not agent.asked and run.took < 40, run.said


@pytest.mark.parametrize("state", ["dead", "hanging"])
def test_readers_of_an_unavailable_server_exit(gateway, player, state):
    player().play(gateway, gateway.url("support"))
    gateway.break_down(state)
    done = gateway.command("episodes", "probe", "--results", gateway.url("support"))
    assert done.returncode == 2 and AWAY[state] in " ".join(done.stderr.split()), done.stderr


def test_a_runner_keeps_its_score_without_its_bucket(gateway, player, agents, pool):
    p = player(agents(), parallelism=1)
    p.play(gateway, gateway.url("whole"))
    pool.plan(gateway.manifest("whole")["plan"])
    refused = pool.finish(pool.runner(gateway, gateway.url("run"), agents(), AWS_SECRET_ACCESS_KEY="guessed"))
    assert refused["stored"]["error"].startswith("writing the manifest: the store rejects the credentials: correct them: SignatureDoesNotMatch"), refused["stored"]
    # The pod has counted the episodes, so they are not played again for the missing lines.
    late = agents()
    again = pool.finish(pool.runner(gateway, gateway.url("run"), late))
    assert again["ledger"] == refused["ledger"] and not late.asked
    assert again["stored"]["error"].startswith(f"{p.episodes} episodes ended before a restart")


@pytest.mark.parametrize("state", AWAY)
def test_a_failing_server_costs_no_score(gateway, player, agents, state):
    agent = agents(15)
    p = player(agent)
    process = p.start(gateway, gateway.url("support"))
    gateway.await_stored("support", 15)
    gateway.break_down(state)
    agent.let(1 << 30)
    run = p.finish(process)
    assert run.code == 1 and run.condition("Complete").startswith("True/Completed")
    said = run.condition("ResultsStored")
    assert said.startswith("False/StoreFailed: 15 of 40 episodes are stored") and AWAY[state] in said and "The score stands" in said, said
    assert run.took < 120
    # When the server is back, the same command stores the remaining episodes once each, with the
    # same figures.
    gateway.stop()
    gateway.start()
    again = p.play(gateway, gateway.url("support"))
    assert again.code == 0 and again.condition("ResultsStored").startswith("True/Stored") and again.figures == run.figures
    assert gateway.stored("support") == list(range(p.episodes))


def test_a_short_outage_costs_nothing(gateway, player, agents):
    agent = agents(15)
    p = player(agent)
    process = p.start(gateway, gateway.url("support"))
    gateway.await_stored("support", 15)
    gateway.stop()
    agent.let(15)
    threading.Event().wait(8)  # for failing writes
    gateway.start()
    agent.let(1 << 30)
    run = p.finish(process)
    assert run.code == 0 and run.condition("ResultsStored").startswith("True/Stored")
    assert gateway.stored("support") == list(range(p.episodes))


def test_a_full_disk_costs_no_score(small_disks, gateways, player):
    gateway = gateways(room="400k")
    p = player(trials=50)
    run = p.play(gateway, gateway.url("support"))
    said = run.condition("ResultsStored")
    assert run.code == 1 and run.condition("Complete").startswith("True/Completed")
    assert said.startswith("False/StoreFailed: ") and "the store is full: free some space" in said, said
    assert run.status["episodes"]["scored"] + run.status["episodes"]["failed"] == p.episodes and run.took < 120
    # The stored records are complete.
    assert int(said.split(" of ")[0].split()[-1]) == len(gateway.stored("support")) < p.episodes
