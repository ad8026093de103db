"""A scripted model for LiteLLM's proxy. Its name selects its behaviour.

It reads the conversation as a model would: the task, the observations, and how often it has acted.
"""

import asyncio
import json
import re

import litellm
from litellm import CustomLLM
from litellm.types.utils import Choices, Message, ModelResponse, Usage


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def decide(messages):
    """Returns the next action: its type and its arguments."""
    told = [text_of(m) for m in messages if m["role"] in ("user", "tool")]
    task = re.search(r"^Task: (\S+)", told[0]).group(1)
    n = sum(m["role"] == "assistant" for m in messages)
    if task == "payment-exception":
        order = re.search(r"\b[A-Z]{2}-?\d{4,}\b", told[0])
        steps = [("check_payment", {"order_id": order.group(0) if order else "LD-000000"})]
        end = ("respond_user", {"message": "Dear customer, we have looked at your payment and will write to you again."})
        return steps[n] if n < len(steps) else end
    steps = [
        ("classify", {"category": "billing", "priority": "high"}),
        ("search_knowledge_base", {"query": "refund policy"}),
        ("respond", {"message": "Dear customer, thank you for your message. We are looking into it and will write again by tomorrow."}),
        ("resolve", {"message": None}),
    ]
    if task == "ticket-resolve":
        return steps[min(n, 3)]
    tickets = re.findall(r'"ticket_id":\s*"([^"]+)","subject"', told[0])
    ticket, step = divmod(n, 5)
    if step == 0:
        return "select_ticket", {"ticket_id": tickets[ticket % len(tickets)]}
    return steps[step - 1]


class Scripted(CustomLLM):
    def __init__(self):
        super().__init__()
        self.calls = {}

    async def acompletion(self, model, messages, model_response: ModelResponse, optional_params, **_):
        name = model.split("/")[-1]
        n = self.calls[name] = self.calls.get(name, 0) + 1
        if name == "flaky" and n % 4 == 1:
            raise litellm.RateLimitError("slow down", llm_provider="scripted", model=name)
        if name == "flaky" and n % 9 == 2:
            raise litellm.InternalServerError("oops", llm_provider="scripted", model=name)
        if name == "toolless" and optional_params.get("tools"):
            raise litellm.BadRequestError("this model does not support tools", model=name, llm_provider="scripted")
        if name == "down":
            raise litellm.ServiceUnavailableError("down for repairs", llm_provider="scripted", model=name)
        if name == "slow":
            await asyncio.sleep(30)
        model_response.choices = [Choices(index=0, finish_reason="stop", message=self.answer(name, n, messages, optional_params))]
        model_response.usage = Usage(prompt_tokens=1000, completion_tokens=100, total_tokens=1100)
        model_response.model = model
        return model_response

    def answer(self, name, n, messages, params):
        kind, arguments = decide(messages)
        if name == "prose":
            return Message(role="assistant", content="I think that the customer should be paid.")
        if not params.get("tools"):
            payload = {"payload": arguments} if kind in ("check_payment", "respond_user") else arguments
            return Message(role="assistant", content="```json\n" + json.dumps({"action_type": kind, **payload}) + "\n```")
        offered = {t["function"]["name"]: t["function"]["parameters"] for t in params["tools"]}
        if set(arguments) - set(offered[kind]["properties"]):
            raise litellm.BadRequestError(f"{kind} does not take {arguments}", model=name, llm_provider="scripted")
        written = json.dumps(arguments)
        call = {"id": f"call{n}", "type": "function", "function": {"name": kind, "arguments": written[:-4] if name == "broken" else written}}
        calls = [call]
        if name == "twice":
            calls.append({"id": f"other{n}", "type": "function", "function": {"name": kind, "arguments": written}})
        return Message(role="assistant", content=None, tool_calls=calls)


handler = Scripted()
