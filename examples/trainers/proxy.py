"""An Environment in the process that plays on the server, for stacks that import one and can't take a URL (NeMo Gym)."""

from common import report
from customer_support_env import CustomerSupportAction
from customer_support_env.proxy import TicketEnvironment

for seed in range(4):
    env = TicketEnvironment(task="ticket-resolve")
    observation = env.reset(seed=seed)
    env.step(CustomerSupportAction.classify(category="billing", priority="high"))
    observation = env.step(CustomerSupportAction.resolve(f"Hello {observation.customer_name}, we look into it today."))
    assert observation.done and env.state.done
    assert observation.reward == observation.metadata["episode_score"]
    env.close()
report("openenv", 4)
