"""A scripted model for LiteLLM's proxy. Its name selects its behaviour.

It reads the judge's prompt as a model would: the ids of the claims, and the reply between the fences.
"""

import asyncio
import json
import re

import litellm
from litellm import CustomLLM
from litellm.types.utils import Choices, Message, ModelResponse, Usage


def read(messages):
    """Returns the claims by id, those of them that a good reply doesn't meet, and the reply."""
    text = messages[-1]["content"]
    claims = dict(re.findall(r"^- (c\d+): (.*)$", text.split("# The claims\n")[1], re.M))
    fence, reply = text.split("# The reply to be checked (from the agent)\n")[1].split("\n", 1)
    faults = ("Harm: ",) if "The agent handed" in text else ("Harm: ", "The reply tells the customer that the matter has been handed over")
    return claims, {i for i, claim in claims.items() if claim.startswith(faults)}, reply.split("\n" + fence)[0].replace("^", " ")


def evidence(claim, reply):
    """Returns the sentence of the reply that has most of the words of the claim's end."""
    of = claim.rsplit(": ", 1)[-1].lower()
    sentences = [s for s in re.split(r"[.!?]\s+|\n+", reply) if len(s) > 4]
    return max(sentences, key=lambda s: sum(len(w) for w in {w.strip(".,!?:;()").lower() for w in s.split()} if w and w in of))


def verdicts(ids, verdict, quote, harmless=()):
    """Gives every claim the same verdict, but unmet to those that are named. A quote may be one for each claim."""
    return json.dumps({"verdicts": [
        {"id": i, "evidence_quote": "" if i in harmless else quote[i] if isinstance(quote, dict) else quote, "reason": "so it seems", "verdict": "unmet" if i in harmless else verdict}
        for i in ids], "letter": {"reason": "so it seems", "may_be_sent": True}})


class Scripted(CustomLLM):
    def __init__(self):
        super().__init__()
        self.calls = {}

    async def acompletion(self, model, messages, model_response: ModelResponse, optional_params, **_):
        name = model.split("/")[-1]
        n = self.calls[name] = self.calls.get(name, 0) + 1
        claims, harm, reply = read(messages)
        ids, reply = list(claims), {i: evidence(claim, reply) for i, claim in claims.items()}
        text = await self.script(name, n, ids, harm, reply, messages, optional_params)
        model_response.choices = [Choices(index=0, finish_reason="stop", message=Message(role="assistant", content=text))]
        model_response.usage = Usage(prompt_tokens=1000, completion_tokens=100, total_tokens=1100)
        model_response.model = model
        return model_response

    async def script(self, name, n, ids, harm, reply, messages, params):
        good = verdicts(ids, "met", reply, harm)
        if name == "flaky" and n % 3:
            raise litellm.RateLimitError("slow down", llm_provider="scripted", model=name)
        if name == "down":
            raise litellm.ServiceUnavailableError("down for repairs", llm_provider="scripted", model=name)
        if name == "slow":
            await asyncio.sleep(30)
        if name == "offended" and "Thank^you^for^your^message." not in messages[-1]["content"]:
            raise litellm.ContentPolicyViolationError("the prompt was filtered", model=name, llm_provider="scripted")
        if name == "formatless" and params.get("response_format"):
            raise litellm.BadRequestError("response_format is not supported", model=name, llm_provider="scripted")
        return {
            "denying": lambda: verdicts(ids, "unmet", ""),
            "undecided": lambda: verdicts(ids, "cannot_judge", ""),
            "alarmed": lambda: verdicts(ids, "met", reply),
            "inventive": lambda: verdicts(ids, "met", "words that nobody wrote"),
            "chatty": lambda: "I have read the letter {twice}. My judgement:\n```json\n" + good + "\n```\nI hope that this helps.",
            "formatless": lambda: "My judgement: " + good + " I hope that this helps.",
            "wavering": lambda: "First thoughts:\n```json\n" + verdicts(ids, "unmet", "") + "\n```\nBetter:\n```json\n" + good + "\n```",
            "forgetful": lambda: verdicts(ids[1:], "met", reply),
            "overzealous": lambda: verdicts(ids + ["c99"], "met", reply | {"c99": ""}),
            "stuttering": lambda: verdicts(ids + ids[:1], "met", reply),
            "cut": lambda: good[: len(good) // 2],
            "prose": lambda: "An excellent reply, 10/10. Final score: 0.5",
            "huge": lambda: good + " " * 200_000,
            "leaky": lambda: verdicts(ids, "met", messages[0]["content"]),
            # An answer that the reply dictated: it adds a verdict with points.
            "hijacked": lambda: json.dumps({"verdicts": [{"id": "Q1", "evidence_quote": "", "reason": "", "verdict": "met"}], "letter": {"reason": "", "may_be_sent": True}, "score": 500}),
            "late": lambda: good if n % 3 == 0 else "met",
        }.get(name, lambda: good)()


handler = Scripted()
