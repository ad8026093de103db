"""AgileRL: its own client of OpenEnv servers, with texts and with tool calls."""

from agilerl.llm_envs.openenv import RemoteEnvClient
from agilerl.llm_envs.tool_parsers import ParsedToolCall
from common import URL, Scripted, report

ROWS = [{"seed": seed, "task": "ticket-resolve"} for seed in range(4)]

# With texts: the model's text is the reply that ends the ticket.
env = RemoteEnvClient(URL, tasks=ROWS, answer_tool="resolve", action_field="message")
for row in range(env.dataset_size):
    observation, _ = env.reset(row_index=row)
    _, reward, done, _, info = env.step(f"Hello {observation['customer_name']}, we look into it today.")
    assert done and reward == info["episode_score"], (reward, info)
env.close()

# With tool calls, as its parsers find them in the model's text.
env = RemoteEnvClient(URL, tasks=ROWS)
assert env.takes_tool_calls
for row in range(env.dataset_size):
    observation, _ = env.reset(row_index=row)
    done, name = False, observation["customer_name"]
    policy = Scripted(f'{{"customer_name": "{name}"}}')
    while not done:
        tool, arguments = policy.act()
        call = ParsedToolCall(raw="", name=tool, arguments=arguments)
        _, reward, done, _, info = env.step(call)
    assert reward == info["episode_score"], (reward, info)
env.close()
report("agilerl", 2 * len(ROWS))
