"""OpenEnv's validator."""

import dataclasses
import json
import random
import types
from pathlib import Path

import customer_support_env
import pytest
from openenv.cli.__main__ import app
from openenv.validation.graders.runtime import ObservationSchemaGrader, RewardWellFormedGrader, StateContractGrader
from openenv.validation.parsers.openenv_yaml import OpenEnvYamlParser
from openenv.validation.runtime.collector import collect_runtime_evidence
from openenv.validation.runtime.contracts import RuntimePlan
from openenv.validation.types import CheckStatus
from typer.testing import CliRunner


@pytest.mark.parametrize(("server", "mode"), [("ticket", "simulation"), ("workflow", "simulation"), ("production", "production"), ("front", "simulation")])
def test_openenv_validate_url_passes_every_criterion(server, mode, request, tmp_path):
    url, out = request.getfixturevalue(server).url, tmp_path / "report.json"
    ran = CliRunner().invoke(app, ["validate", "--url", url, "--output", str(out)])
    assert ran.exit_code == 0, ran.output
    report = json.loads(out.read_text())
    assert report["passed"] and report["mode"] == mode and report["standard_profile"] == "openenv-http/1.x"
    assert len(report["criteria"]) >= 6 and all(c["passed"] for c in report["criteria"]), report["summary"]


@pytest.mark.parametrize("server", ["token", "token_pool"])
def test_openenv_validate_url_passes_with_a_token_in_the_url(server, token_headers, request, tmp_path):
    url, out = request.getfixturevalue(server).url, tmp_path / "report.json"
    for user, passes in (("openenv:" + token_headers["Authorization"].removeprefix("Bearer "), True), ("openenv:another", False)):
        ran = CliRunner().invoke(app, ["validate", "--url", url.replace("//", f"//{user}@", 1), "--output", str(out)])
        assert (ran.exit_code == 0) == passes, ran.output
        report = json.loads(out.read_text())
        assert report["passed"] == passes and all(c["passed"] for c in report["criteria"]) == passes, report["summary"]


def test_openenv_validate_passes_on_the_package(tmp_path):
    """The validator accepts the installed package's openenv.yaml."""
    package, out = Path(customer_support_env.__file__).parent, tmp_path / "report.json"
    manifest = OpenEnvYamlParser().parse(package)
    assert manifest.name == "customer_support_env" and manifest.capabilities.task_api and manifest.network.mode == "no-network"
    ran = CliRunner().invoke(app, ["validate", str(package), "--level", "static", "--skip-build", "--output", str(out)])
    assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_validators_runtime_graders_pass_on_every_task(server_of_task, task, seed, episodes):
    """The validator runs the graders on a container. They need only the recorded messages, so this test applies them to a running server."""
    plan = RuntimePlan.model_validate(
        {"plan_schema_version": "1", "reset": {"episode_id": "episode-of-the-plan", "seed": seed, "options": {"task": task}}, "actions": episodes[task]}
    )
    evidence = collect_runtime_evidence(server_of_task.url, plan, episode_timeout_s=30)
    assert evidence.failure_reason is None
    assert json.loads(evidence.exchanges[-2].response_json)["data"]["done"], "the plan ends the episode"
    grade(evidence)


def grade(evidence):
    """Applies the validator's graders with the range of rewards that the package declares."""
    manifest = OpenEnvYamlParser().parse(Path(customer_support_env.__file__).parent)
    subject = types.SimpleNamespace(runtime_evidence=evidence, manifest=manifest)
    for grader in (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()):
        result = grader.run(subject)
        assert result.status is CheckStatus.PASS, result


PLANS = 27  # of each task: 324 in all


def test_validators_runtime_graders_pass_with_tool_steps_mixed_in(server_of_task, task, episodes):
    """Plans of typed actions, calls of tools and lists of tools, some of them wrong. The evidence is graded at once, because a grader starts a process."""
    exchanges = []
    for seed in range(PLANS):
        plan = RuntimePlan.model_validate(
            {
                "plan_schema_version": "1",
                "reset": {"episode_id": f"episode-{seed}", "seed": seed, "options": {"task": task, "invalid_action_penalty": 0.5} if seed % 3 == 0 else {"task": task}},
                "actions": mixed(episodes[task], random.Random(f"{task} {seed}"), wrong=seed % 3 == 0),
            }
        )
        evidence = collect_runtime_evidence(server_of_task.url, plan, episode_timeout_s=30)
        assert evidence.failure_reason is None, evidence.failure_reason
        exchanges.extend(evidence.exchanges)
    grade(dataclasses.replace(evidence, exchanges=tuple(exchanges)))


def mixed(actions, draw, wrong):
    """Writes some of the actions as calls of tools, and puts other steps between them."""
    steps = []
    for action in actions[:8]:
        fields = {name: value for name, value in action.items() if name != "action_type"}
        called = {"type": "call_tool", "tool_name": action["action_type"], "arguments": fields.get("payload", fields)}
        others = [{"type": "list_tools"}, {"type": "call_tool", "tool_name": "get_observation", "arguments": {}}, {"type": "call_tool", "tool_name": "juggle", "arguments": {}}]
        if wrong:
            others.append({"action_type": "juggle"})
        steps += draw.sample(others, draw.randint(0, 2)) + [draw.choice([action, called])]
    return steps
