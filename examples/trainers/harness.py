"""openenv's harness: build_harness_rollout_func makes a rollout function for TRL from sessions and a harness."""

from common import URL, Scripted, report
from customer_support_env import list_tools
from openenv.core.env_server.mcp_types import Tool
from openenv.core.generic_client import GenericEnvClient
from openenv.core.harness import MCPHarnessAdapter, ModelStepResult, StepEnvSessionAdapter, build_harness_rollout_func
from openenv.core.llm_client import LLMResponse, ToolCall

TOOLS = [Tool(name=tool.name, description=tool.description, input_schema=tool.parameters) for tool in list_tools()]
sessions = []


class Sessions:
    def create(self, task, **options):
        session = StepEnvSessionAdapter(
            GenericEnvClient(base_url=URL), task=task, reset_kwargs=task, tool_specs=TOOLS, **options,
            action_builder=lambda name, arguments: {"action_type": name, **arguments},
            initial_messages_builder=lambda result, task: [{"role": "user", "content": result.observation["description"]}],
        )  # fmt: skip
        sessions.append(session)
        return session


def model_step(trainer, session):
    policy = Scripted("{}")

    def step(messages, tools, sampling):
        """Samples a turn from the trainer's model, here from a script, with ids and log-probabilities of its tokens."""
        name, arguments = policy.act()
        return ModelStepResult(LLMResponse("", [ToolCall("1", name, arguments)]), [1], [2], [-0.1])

    return step


rollout = build_harness_rollout_func(session_factory=Sessions(), harness_adapter=MCPHarnessAdapter(), model_step_builder=model_step)
played = rollout([{"seed": seed, "task": "ticket-resolve"} for seed in range(4)], None)
assert played["env_reward"] == [session._last_result.metadata["episode_score"] for session in sessions]
report("openenv", 4)
