"""OpenEnv's validator."""

import json
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
    subject = types.SimpleNamespace(runtime_evidence=evidence, manifest=types.SimpleNamespace(reward=types.SimpleNamespace(range=(-2.0, 2.0))))
    for grader in (RewardWellFormedGrader(), ObservationSchemaGrader(), StateContractGrader()):
        result = grader.run(subject)
        assert result.status is CheckStatus.PASS, result
