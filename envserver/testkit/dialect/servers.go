package dialect

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// servers are the dialects of programs that serve models, and of gateways in front of them.
var servers = []Dialect{
	{Name: "vLLM, reasoning parser", Source: "docs.vllm.ai/en/latest/features/reasoning_outputs.html",
		Answer: func(_, body, m Object) {
			m["reasoning"], m["reasoning_content"], m["refusal"] = "Let me think.", "Let me think.", nil
			FirstChoice(body)["stop_reason"], body["prompt_logprobs"] = nil, nil
		}},
	{Name: "vLLM before 0.6", Source: "github.com/langchain4j/langchain4j/issues/3475",
		Refuse: refuseAny(
			refuseMember("tools", 400, `{"object":"error","message":"\"auto\" tool choice requires `+
				`--enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","param":null,"code":400}`),
			refuseMember(
				"parallel_tool_calls",
				400,
				`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': `+
					`('body', 'parallel_tool_calls'), 'msg': 'Extra inputs are not permitted', 'input': False}]",`+
					`"type":"BadRequestError","param":null,"code":400}`,
			),
		),
		Answer: func(_, body, _ Object) { FirstChoice(body)["stop_reason"] = nil }},
	{Name: "vLLM without a tool parser", Source: "github.com/TIGER-AI-Lab/ClawBench/issues/241",
		Answer: moveCallToText(func(name, arguments string) string {
			return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"
		})},
	{Name: "vLLM, gpt-oss", Source: "github.com/vllm-project/vllm/issues/32587",
		Answer: func(_, _, m Object) {
			if f := calledFunction(m); f != nil {
				f["name"] = fmt.Sprint(f["name"], "<|channel|>commentary")
			}
		}},
	{Name: "vLLM, Qwen3-Coder without its parser", Source: "docs.vllm.ai/en/latest/features/tool_calling.html",
		Answer: moveCallToText(func(name, arguments string) string {
			return "<tool_call>\n<function=" + name + ">\n" + formatArguments(arguments,
				"<parameter=%s>\n%s\n</parameter>\n") + "</function>\n</tool_call>"
		})},
	{Name: "SGLang, GLM without its parser", Source: "github.com/ikawrakow/ik_llama.cpp/pull/677 (the template)",
		Answer: moveCallToText(func(name, arguments string) string {
			return "<tool_call>" + name + "\n" + formatArguments(arguments,
				"<arg_key>%s</arg_key>\n<arg_value>%s</arg_value>\n") + "</tool_call>"
		})},
	{Name: "SGLang", Source: "docs.sglang.ai/advanced_features/separate_reasoning.html",
		Refuse: refuseMember("parallel_tool_calls", 400, `{"object":"error","message":"1 validation error: `+
			`parallel_tool_calls: Extra inputs are not permitted","type":"BadRequest","param":null,"code":400}`),
		Answer: func(_, body, m Object) {
			m["reasoning_content"], FirstChoice(body)["matched_stop"] = "Hm.", nil
			for i, c := range toolCalls(m) {
				c.(Object)["index"] = i
			}
		}},
	{Name: "llama.cpp without templates", Source: "github.com/defilantech/LLMKube/issues/126",
		Refuse: refuseMember("tools", 500, `{"error":{"code":500,"message":"tools param requires --jinja `+
			`flag","type":"server_error"}}`),
		Answer: func(_, body, _ Object) { body["timings"] = Object{"predicted_n": 7} }},
	{Name: "llama.cpp, objects", Source: "github.com/ggml-org/llama.cpp/issues/20198", Answer: decodeArguments},
	{Name: "Ollama", Source: "github.com/ollama/ollama/blob/main/docs/openai.md",
		Answer: func(_, body, m Object) {
			body["system_fingerprint"] = "fp_ollama"
			for i, c := range toolCalls(m) {
				c.(Object)["index"] = i
			}
		}},
	{Name: "Ollama, a model without tools", Source: "github.com/FoundationAgents/OpenManus/issues/220",
		Refuse: refuseMember(
			"tools",
			400,
			`{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools",`+
				`"type":"api_error","param":null,"code":null}}`,
		)},
	{Name: "LM Studio", Source: "github.com/lmstudio-ai/lmstudio-bug-tracker/issues/189",
		Refuse: refuseAny(refuseMember("tools", 400, `{"error":"Tool use is not supported by this model"}`),
			func(_ *http.Request, asked Object) (int, string) {
				if f, ok := asked["response_format"].(Object); ok && f["type"] == "json_object" {
					return 400, `{"error":"'response_format.type' must be 'json_schema' or 'text'"}`
				}
				return 0, ""
			})},
	{Name: "TGI", Source: "github.com/huggingface/text-generation-inference/issues/2136", Answer: decodeArguments},
	{Name: "TGI, Gemma", Source: "github.com/huggingface/chat-ui/issues/1386",
		Refuse: refuseAny(
			refuseSystem(
				422,
				`{"error":"Template error: invalid operation: System role not supported (in <string>:1)",`+
					`"error_type":"template_error"}`,
			),
			refuseMember("tools", 422, `{"error":"Template error: Conversation roles must `+
				`alternate user/assistant/user/assistant/...","error_type":"template_error"}`),
		),
		Answer: func(_, body, _ Object) { FirstChoice(body)["finish_reason"] = "eos_token" }},
	{Name: "LiteLLM", Source: "github.com/BerriAI/litellm/issues/29618",
		Refuse: refuseAny(refuseAsLiteLLM("seed"), refuseAsLiteLLM("parallel_tool_calls"),
			refuseAsLiteLLM("response_format")),
		Answer: func(_, _, m Object) {
			m["provider_specific_fields"], m["function_call"] = Object{"refusal": nil}, nil
		}},
	{Name: "TensorRT-LLM", Source: "github.com/NVIDIA/TensorRT-LLM/blob/main/tensorrt_llm/serve/openai_protocol.py",
		Refuse: refuseAny(
			refuseStrictTools(
				400,
				`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', 'tools', 0, `+
					`'function', 'strict'), 'msg': 'Extra inputs are not permitted'}]","type":"BadRequestError","code":400}`,
			),
			refuseMember(
				"parallel_tool_calls",
				400,
				`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body', `+
					`'parallel_tool_calls'), 'msg': 'Extra inputs are not permitted'}]","type":"BadRequestError","code":400}`,
			),
		)},
	{Name: "NVIDIA NIM", Source: "github.com/NVIDIA/garak/issues/748",
		Refuse: refuseAny(refuseAsNIM("seed"), refuseAsNIM("parallel_tool_calls"), refuseAsNIM("top_p")),
		Answer: func(_, _, m Object) {
			for _, c := range toolCalls(m) { // github.com/NVIDIA/nim-deploy/issues/182
				delete(c.(Object), "id")
			}
		}},
	{Name: "a gateway that streams", Source: "github.com/sgl-project/mini-sglang/issues/51", Write: writeStream},
	{Name: "a gateway that ends JSON as a stream", Source: "github.com/decolua/9router/issues/3492",
		Write: func(w http.ResponseWriter, body Object) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = json.NewEncoder(w).Encode(body)
			fmt.Fprint(w, "data: [DONE]\n\n")
		}},
	{Name: "a gateway of two choices", Source: "github.com/HKUDS/nanobot/pull/1555",
		Answer: func(_, body, m Object) {
			if list := toolCalls(m); list != nil {
				delete(m, "tool_calls")
				body["choices"] = append(body["choices"].([]any), Object{"index": 0, "finish_reason": "tool_calls",
					"message": Object{"role": "assistant", "tool_calls": list}})
			}
		}},
	{Name: "a gateway that keeps the connection alive", Source: "openrouter.ai/docs/api-reference/streaming",
		Write: func(w http.ResponseWriter, body Object) {
			_, _ = w.Write([]byte("\n\n         \n"))
			_ = json.NewEncoder(w).Encode(body)
		}},
	{Name: "arguments as a dict of Python", Source: "github.com/cubist38/mlx-openai-server/issues/124",
		Answer: rewriteArguments(strings.NewReplacer(`"`, `'`, "null", "None", "true", "True", "false", "False").Replace)},
	{Name: "arguments in a fence, in a list, with a comma too much", Source: "composed", Answer: rewriteArguments(
		func(a string) string { return "```json\n[" + strings.TrimSuffix(a, "}") + ",}, ]\n```" })},
	{Name: "keys without quotes, in quotes", Source: "composed", Answer: rewriteArguments(func(a string) string {
		quoted, _ := json.Marshal(key.ReplaceAllString(a, "$1:"))
		return string(quoted)
	})},
	{Name: "a relay that renames", Source: "github.com/diegosouzapw/OmniRoute/issues/605 (the name)",
		Answer: func(_, _, m Object) {
			if f := calledFunction(m); f != nil {
				f["name"], f["input"] = "mcp__desk__"+strings.ToUpper(f["name"].(string)), f["arguments"]
				delete(f, "arguments")
			}
		}},
	{Name: "plain text without usage", Source: "composed", Write: func(w http.ResponseWriter, body Object) {
		delete(body, "usage")
		w.Header().Set("Content-Type", "text/plain")
		_ = json.NewEncoder(w).Encode(body)
	}},
	{Name: "thoughts, empty members and a second call", Source: "composed", Answer: func(_, _, m Object) {
		m["reasoning_content"], m["refusal"], m["function_call"], m["annotations"] = "{'a': plan}", nil, nil, []any{}
		if list := toolCalls(m); list != nil {
			m["tool_calls"] = append(list, Object{"id": "", "type": "function",
				"function": Object{"name": "resolve", "arguments": "{}"}})
		}
	}},
}

// key finds the names of an object's members.
var key = regexp.MustCompile(`"(\w+)":`)

// rewriteArguments changes the arguments of a call.
func rewriteArguments(rewrite func(string) string) func(asked, body, m Object) {
	return func(_, _, m Object) {
		if f := calledFunction(m); f != nil {
			f["arguments"] = rewrite(f["arguments"].(string))
		}
	}
}

// moveCallToText writes the call into the text.
func moveCallToText(write func(name, arguments string) string) func(asked, body, m Object) {
	return func(_, body, m Object) {
		if f := calledFunction(m); f != nil {
			m["content"] = fmt.Sprint("<think>{a plan}</think>", write(f["name"].(string), f["arguments"].(string)))
			delete(m, "tool_calls")
			FirstChoice(body)["finish_reason"] = "stop"
		}
	}
}

// formatArguments writes each argument with a format.
func formatArguments(arguments, format string) string {
	var members Object
	if err := json.Unmarshal([]byte(arguments), &members); err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if members[name] != nil {
			fmt.Fprintf(&out, format, name, members[name])
		}
	}
	return out.String()
}

// decodeArguments writes arguments as objects.
func decodeArguments(_, _, m Object) {
	if f := calledFunction(m); f != nil {
		var arguments any
		_ = json.Unmarshal([]byte(f["arguments"].(string)), &arguments)
		f["arguments"] = arguments
	}
}

func refuseSystem(status int, body string) func(*http.Request, Object) (int, string) {
	return func(_ *http.Request, asked Object) (int, string) {
		if filterMessages(asked, "system") != nil {
			return status, body
		}
		return 0, ""
	}
}

func refuseAsLiteLLM(member string) func(*http.Request, Object) (int, string) {
	return refuseMember(
		member,
		400,
		fmt.Sprintf(`{"error":{"message":"litellm.UnsupportedParamsError: bedrock does not support `+
			`parameters: ['%s'], for model=m. To drop these, set litellm.drop_params=True. Received Model Group=m",`+
			`"type":"None","param":"None","code":"400"}}`, member),
	)
}

func refuseAsNIM(member string) func(*http.Request, Object) (int, string) {
	return refuseMember(
		member,
		422,
		fmt.Sprintf(`{"type":"urn:inference-service:problem-details:unprocessable-entity","title":`+
			`"Unprocessable Entity","status":422,"detail":"body -> %s\n  Extra inputs are not permitted (type=extra_forbidden)",`+
			`"instance":"/v2/nvcf/pexec/functions/x","requestId":"y"}`, member),
	)
}

// writeStream writes an answer as events, with its texts in two parts.
func writeStream(w http.ResponseWriter, body Object) {
	w.Header().Set("Content-Type", "text/event-stream")
	choice := FirstChoice(body)
	message, _ := choice["message"].(Object)
	send := func(delta Object, reason any) {
		data, _ := json.Marshal(Object{"id": "x", "object": "chat.completion.chunk", "model": "m",
			"choices": []any{Object{"index": 0, "delta": delta, "finish_reason": reason}}})
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	fmt.Fprint(w, ": PROCESSING\n\n")
	send(Object{"role": "assistant", "content": ""}, nil)
	text, _ := message["content"].(string)
	for part := range strings.SplitAfterSeq(text, " ") {
		send(Object{"content": part}, nil)
	}
	if f := calledFunction(message); f != nil {
		call := toolCalls(message)[0].(Object)
		arguments := f["arguments"].(string)
		half := len(arguments) / 2
		send(Object{"tool_calls": []any{Object{"index": 0, "id": call["id"], "type": "function",
			"function": Object{"name": f["name"], "arguments": arguments[:half]}}}}, nil)
		send(Object{"tool_calls": []any{Object{"index": 0, "function": Object{"arguments": arguments[half:]}}}}, nil)
	}
	send(Object{}, "stop")
	usage, _ := json.Marshal(Object{"choices": []any{}, "usage": body["usage"]})
	fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", usage)
}
