"""SkyRL: an environment that skyrl-gym registers; SkyRL's generator makes one for each row of its data set."""

import json

import skyrl_gym
from common import Scripted, report

skyrl_gym.register(id="customer-support", entry_point="customer_support_env.skyrl:SupportTextEnv")

for seed in range(4):
    row = {"seed": seed, "task": "ticket-resolve", "data_source": "any other column"}
    env = skyrl_gym.make("customer-support", env_config={"max_turns": 10}, extras=row)
    chat, _ = env.init([{"role": "system", "content": "You are an agent of a help desk."}])
    policy, done, rewards = Scripted(chat[-1]["content"].rpartition("\n\n")[2]), False, []
    while not done:
        tool, arguments = policy.act()
        turn = json.dumps({"tool": tool, "arguments": arguments})
        output = env.step(f"I think this helps. <action>{turn}</action>")
        rewards.append(output["reward"])
        done = output["done"]
    assert rewards[-1] == sum(rewards) == output["metadata"]["episode_score"] == env.get_metrics()["score"]
    env.close()
report("skyrl-gym", 4)
