"""OpenEnv's providers start an image without a command, and expect a server on its port 8000."""

import asyncio
import json
import os
import pathlib
import urllib.request

import pytest
from openenv.core.containers.runtime.providers import LocalDockerProvider
from openenv.core.generic_client import GenericEnvClient

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the stand-in for docker makes a network, which needs root")


@pytest.fixture
def docker(tmp_path, monkeypatch):
    """A docker on PATH that has csenv's image. Returns its folder, which has one for each container."""
    image = os.environ.get("CONFORMANCE_IMAGE")
    if not image:
        pytest.exit("no image: start this with `make conformance`", returncode=2)
    programs, home = tmp_path / "programs", tmp_path / "docker"
    for folder in programs, home:
        folder.mkdir()
    (programs / "docker").symlink_to(pathlib.Path(__file__).with_name("docker.py"))
    (home / "image.tar").symlink_to(image)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("STANDIN_DOCKER", str(home))
    return home


def containers(docker):
    return [folder for folder in docker.iterdir() if folder.is_dir()]


def test_from_docker_image(docker, episodes):
    async def play():
        async with await GenericEnvClient.from_docker_image("csenv:test", env_vars={"MAX_CONCURRENT_ENVS": "1"}) as env:
            [container] = containers(docker)
            await env.reset(seed=7, task="ticket-classify")
            result = await env.step(episodes["ticket-classify"][0])
            assert result.done and 0 <= result.metadata["episode_score"] <= 1
            assert json.loads((container / "container.json").read_text())["command"] == ["/envserver"]

    asyncio.run(play())
    assert containers(docker) == [], "closing the client removes the container"


def test_provider_starts_a_server(docker):
    provider = LocalDockerProvider()
    address = provider.start_container("csenv:test", env_vars={"ENABLE_WEB_INTERFACE": "true"})
    try:
        provider.wait_for_ready(address)
        with urllib.request.urlopen(address + "/web/", timeout=10) as page:
            assert page.status == 200, "the container has the variable"
    finally:
        provider.stop_container()
    assert containers(docker) == []
