"""NeMo Gym: its resources server for OpenEnv imports an Environment. The one of the package plays on the server."""

from unittest.mock import MagicMock

from common import URL, Scripted, report
from fastapi.testclient import TestClient
from nemo_gym.server_utils import ServerClient
from resources_servers.openenv.app import OpenEnvResourcesServer, OpenEnvResourcesServerConfig

# The members of resources_servers.openenv in NeMo Gym's configuration file. $CSENV_URL names the server.
config = OpenEnvResourcesServerConfig(
    host="127.0.0.1", port=0, entrypoint="app.py", name="customer_support", domain="agent",
    env_class="customer_support_env.proxy.TicketEnvironment", action_class="customer_support_env.CustomerSupportAction",
    reset_kwargs={"seed": 3, "task": "ticket-resolve"},
)  # fmt: skip
assert URL
prompt = {"responses_create_params": {"input": []}}
response = {
    "id": "1", "created_at": 0, "model": "scripted", "object": "response", "output": [], "parallel_tool_calls": False,
    "tool_choice": "auto", "tools": [],
}  # fmt: skip
client = TestClient(OpenEnvResourcesServer(config=config, server_client=MagicMock(spec=ServerClient)).setup_webserver())
client.post("/seed_session", json=prompt).raise_for_status()
policy, observation = Scripted("{}"), {}
while not observation.get("done"):
    tool, arguments = policy.act()
    observation = client.post("/step", json={"action_type": tool, **arguments}).json()
verified = client.post("/verify", json=prompt | {"response": response})
assert verified.status_code == 200, verified.text
assert verified.json()["reward"] == observation["metadata"]["episode_score"]
report("nemo-gym", 1)
