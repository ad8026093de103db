package dialect

import (
	"fmt"
	"net/http"
	"strings"
)

// providers are the dialects of services.
var providers = []Dialect{
	{Name: "OpenAI", Source: "platform.openai.com/docs/api-reference/chat/object",
		Answer: func(_, _, m Object) { m["refusal"], m["annotations"], m["audio"] = nil, []any{}, nil }},
	{Name: "OpenAI, a reasoning model", Source: "platform.openai.com/docs/guides/reasoning",
		Refuse: refuseAny(
			refuseMember(
				"max_tokens",
				400,
				openAI("Unsupported parameter: 'max_tokens' is not supported with this model. "+
					"Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter"),
			),
			refuseMember(
				"temperature",
				400,
				openAI("Unsupported value: 'temperature' does not support 0 with this model. Only the "+
					"default (1) value is supported.", "temperature", "unsupported_value"),
			),
			refuseMember(
				"top_p",
				400,
				openAI("Unsupported parameter: 'top_p' is not supported with this model.", "top_p",
					"unsupported_parameter"),
			),
		)},
	{Name: "OpenAI, o1-mini", Source: "platform.openai.com/docs/guides/reasoning (beta limitations)",
		Refuse: refuseAny(
			refuseSystem(400, openAI("Unsupported value: 'messages[0].role' does not support 'system' with this model.",
				"messages[0].role", "unsupported_value")),
			refuseMember("tools", 400, openAI("Unsupported parameter: 'tools' is not "+
				"supported with this model.", "tools", "unsupported_parameter")),
			refuseMember("response_format", 400, openAI(
				"Unsupported parameter: 'response_format' is not supported with this model.", "response_format",
				"unsupported_parameter")),
		)},
	{Name: "Azure", Source: "learn.microsoft.com/azure/ai-foundry/openai/reference#chat-completions",
		Answer: func(_, body, _ Object) {
			filter := Object{"hate": Object{"filtered": false, "severity": "safe"}}
			FirstChoice(body)["content_filter_results"] = filter
			body["prompt_filter_results"] = []any{Object{"prompt_index": 0, "content_filter_results": filter}}
		}},
	{Name: "Azure, Mistral", Source: "github.com/langchain-ai/langchain-azure/issues/82",
		Refuse: refuseMember(
			"seed",
			422,
			`{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not `+
				`permitted","input":123}]}`,
		)},
	{Name: "Anthropic", Source: "docs.claude.com/en/api/openai-sdk",
		Answer: func(_, body, m Object) {
			m["refusal"], body["system_fingerprint"], body["service_tier"] = nil, nil, nil
		}},
	{Name: "Gemini", Source: "github.com/langgenius/dify-official-plugins/issues/2088, ai.google.dev/gemini-api/docs/" +
		"thought-signatures",
		Refuse: refuseAny(
			refuseMember("seed", 400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name `+
				`\"seed\": Cannot find field.","status":"INVALID_ARGUMENT","details":[]}}]`),
			// github.com/Vali-98/ChatterUI/issues/227
			refuseHistory(func(m Object) bool {
				return toolCalls(m) != nil && toolCalls(m)[0].(Object)["extra_content"] == nil
			}, 400, `[{"error":{"code":400,"message":"Function call is missing a thought_signature in functionCall parts.",`+
				`"status":"INVALID_ARGUMENT"}}]`),
		),
		Answer: func(_, _, m Object) {
			for _, c := range toolCalls(m) {
				c.(Object)["extra_content"] = Object{"google": Object{"thought_signature": "c2ln"}}
			}
		}},
	{Name: "DeepSeek, thinking", Source: "github.com/langchain-ai/langchain/issues/37713, " +
		"github.com/cloudwego/eino/issues/994",
		Refuse: refuseAny(
			refuseMember("tool_choice", 400, `{"error":{"message":"Thinking mode does not support this tool_choice",`+
				`"type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`),
			refuseHistory(
				func(m Object) bool { return m["reasoning_content"] == nil },
				400,
				`{"error":{"message":"The `+
					"`reasoning_content` in the thinking mode must be passed back to the API.\",\"type\":"+
					`"invalid_request_error","param":null,"code":"invalid_request_error"}}`,
			),
		),
		Answer: func(_, _, m Object) { m["reasoning_content"] = "The customer asks {something}." }},
	{Name: "Mistral", Source: "github.com/mistralai/platform-docs-public/issues/7, " +
		"github.com/charmbracelet/crush/issues/1590",
		Refuse: refuseAny(
			refuseAsMistral("seed"),
			refuseAsMistral("max_completion_tokens"),
			refuseHistory(func(m Object) bool {
				return m["reasoning_content"] != nil
			}, 422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",2,"assistant",`+
				`"reasoning_content"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error","code":null}`),
		),
		Answer: func(_, _, m Object) {
			if toolCalls(m) != nil {
				m["content"] = ""
			}
		}},
	{Name: "Mistral, Magistral", Source: "github.com/vercel/ai/issues/13703", Refuse: refuseAsMistral("seed"),
		Answer: func(_, _, m Object) {
			m["content"] = []any{Object{"type": "thinking", "thinking": []any{Object{"type": "text", "text": "{hm"}}},
				Object{"type": "text", "text": m["content"]}}
		}},
	{Name: "Groq", Source: "github.com/karthink/gptel/issues/774",
		Refuse: refuseHistory(func(m Object) bool { return m["reasoning"] != nil }, 400,
			`{"error":{"message":"'messages.2' : for `+
				`'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning' is unsupported, did you `+
				`mean 'role'?)]","type":"invalid_request_error"}}`),
		Answer: func(_, body, m Object) {
			m["reasoning"], body["x_groq"] = "The customer is cross.", Object{"id": "req"}
		}},
	{Name: "Together", Source: "docs.together.ai/reference/chat-completions-1",
		Answer: func(_, body, m Object) {
			if toolCalls(m) == nil {
				m["tool_calls"], FirstChoice(body)["finish_reason"] = []any{}, "eos"
			}
			FirstChoice(body)["seed"], body["prompt"] = 123, []any{}
		}},
	{Name: "Fireworks", Source: "github.com/FlowiseAI/Flowise/issues/2866",
		Refuse: refuseMember("parallel_tool_calls", 400,
			`{"error":{"object":"error","type":"invalid_request_error","message":"Extra `+
				`inputs are not permitted, field: 'parallel_tool_calls', value: False"}}`)},
	{Name: "OpenRouter", Source: "openrouter.ai/docs/use-cases/reasoning-tokens",
		Refuse: refuseAny(
			refuseMember("tool_choice", 404, `{"error":{"message":"No endpoints found that support the provided `+
				`'tool_choice' `+
				`value. To learn more about provider routing, visit: https://openrouter.ai/docs","code":404}}`),
			refuseHistory(
				func(m Object) bool { return m["reasoning_details"] == nil },
				400,
				`{"error":{"message":"Provider `+
					`returned error","code":400,"metadata":{"raw":"{\"error\":{\"message\":\"messages.1: the thinking blocks must `+
					`be passed back\"}}","provider_name":"x"}}}`,
			),
		),
		Answer: func(_, body, m Object) {
			m["reasoning"], m["refusal"] = "Hm.", nil
			m["reasoning_details"] = []any{Object{"type": "reasoning.encrypted", "data": "abc", "index": 0}}
			FirstChoice(body)["native_finish_reason"], body["provider"] = "completed", "x"
		}},
	{Name: "OpenRouter, Cohere", Source: "github.com/OpenRouterTeam/openrouter-examples/issues/71",
		Refuse: refuseStrictTools(422, `{"error":{"message":"Provider returned `+
			`error","code":422,"metadata":{"raw":"{\"message\":\"unknown `+
			`field: parameter 'strict' is not a valid field.\"}","provider_name":"Cohere"}}}`)},
	{Name: "xAI", Source: "github.com/charmbracelet/crush/issues/386, github.com/yym68686/uni-api/issues/105",
		Refuse: refuseAny(refuseMember("parallel_tool_calls", 400, `{"code":"Client specified an invalid `+
			`argument","error":"Argument not `+
			`supported on this model: parallelToolCalls"}`), refuseMember("tool_choice", 400,
			`"Argument not supported on this model: toolChoice"`)),
		Answer: func(_, _, m Object) { m["reasoning_content"], m["refusal"] = "", nil }},
	{Name: "Cohere", Source: "github.com/langchain-ai/langchain/issues/33833, docs.cohere.com/docs/compatibility-api",
		Refuse: refuseAny(
			refuseMember(
				"tool_choice",
				422,
				`{"id":"x","message":"unrecognized tool choice option 'required'. For proper `+
					`usage, please refer to https://docs.cohere.com/reference/chat"}`,
			),
			refuseStrictTools(422,
				`{"id":"x","message":"unknown field: parameter 'strict' is not a valid field"}`),
		)},
	{Name: "Bedrock's gateway", Source: "github.com/microsoft/autogen/issues/4506, " +
		"github.com/aws-samples/bedrock-access-gateway",
		Refuse: refuseAny(func(_ *http.Request, asked Object) (int, string) {
			for _, m := range filterMessages(asked, "assistant") {
				if _, has := m["content"]; !has {
					return 400, `{"detail":[{"loc":["body","messages",2,"content"],"msg":"Field required","type":"missing"}]}`
				}
			}
			return 0, ""
		}, refuseMember("seed", 400, `{"detail":"An error occurred (ValidationException) when calling the Converse operation: The `+
			`model returned the following errors: seed: Extra inputs are not permitted"}`)),
		Answer: func(_, _, m Object) {
			if toolCalls(m) != nil {
				m["content"] = nil
			}
		}},
	{Name: "Cerebras", Source: "github.com/agno-agi/agno/issues/4508, github.com/livekit/agents/pull/3134",
		Refuse: refuseAny(
			refuseMember("parallel_tool_calls", 400, `{"message":"parallel_tool_calls=False is not supported by `+
				`this model.",`+
				`"type":"invalid_request_error","param":"parallel_tool_calls","code":"wrong_api_format"}`),
			refuseStrictTools(400,
				`{"message":"Tools with strict=True are not supported by this model","type":"invalid_request_error",`+
					`"param":"tools","code":"wrong_api_format"}`),
			refuseHistory(
				func(m Object) bool { return m["reasoning"] != nil },
				400,
				`{"message":"messages.1.assistant.reasoning: `+
					`property 'messages.1.assistant.reasoning' is unsupported","type":"invalid_request_error","param":`+
					`"validation_error","code":"wrong_api_format"}`,
			),
		), // github.com/egoist/chatwise-releases/issues/1442
		Answer: func(_, body, m Object) {
			m["reasoning"], body["time_info"] = "Hm.", Object{"queue_time": 0.1}
		}},
	{Name: "DashScope, Qwen", Source: "github.com/cloudwego/eino/issues/994",
		Refuse: refuseMember(
			"tool_choice",
			400,
			`{"error":{"message":"<400> InternalError.Algo.InvalidParameter: The tool_choice `+
				`parameter does not support being set to required or object in thinking mode","type":"invalid_request_error",`+
				`"param":null,"code":"invalid_parameter_error"}}`,
		),
		Answer: func(_, _, m Object) { m["reasoning_content"] = "Hm." }},
	{Name: "Cloudflare", Source: "developers.cloudflare.com/workers-ai/platform/errors",
		Refuse: refuseMember("parallel_tool_calls", 405,
			`{"success":false,"result":null,"errors":[{"code":5006,"message":"AiError: `+
				`parallel_tool_calls is not supported"}],"messages":[]}`), Answer: decodeArguments},
	{Name: "Perplexity", Source: "docs.perplexity.ai/api-reference/chat-completions-post",
		Refuse: refuseAny(
			refuseMember("tools", 400, `{"error":{"message":"Tool calling is not supported for this model","type":`+
				`"invalid_parameter","code":400}}`),
			refuseMember("seed", 501, `{"error":{"message":"seed is not implemented",`+
				`"code":501}}`),
		),
		Answer: func(_, body, m Object) {
			m["content"] = fmt.Sprint("<think>\nI might answer {\"action_type\": \"escalate\"}.\n</think>\n\n",
				m["content"])
			body["citations"] = []any{}
		}},
	{Name: "Kimi without its parser", Source: "huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/" +
		"tool_call_guidance.md",
		Answer: moveCallToText(func(name, arguments string) string {
			return "<|tool_calls_section_begin|><|tool_call_begin|>functions." + name + ":0<|tool_call_argument_begin|>" +
				arguments + "<|tool_call_end|><|tool_calls_section_end|>"
		})},
	{Name: "Mistral's tokens in the text", Source: "docs.vllm.ai/en/latest/features/tool_calling.html (Mistral models)",
		Answer: moveCallToText(func(name, arguments string) string {
			return "[TOOL_CALLS][{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}]"
		})},
	{Name: "a call in a fence", Source: "github.com/ollama/ollama/issues/13519",
		Answer: moveCallToText(func(name, arguments string) string {
			return "I call:\n```json\n{\"name\": \"" + name + "\", \"parameters\": " + arguments + "}\n```"
		})},
	{Name: "Llama's functions in the text", Source: "github.com/kaito-project/aikit/issues/710",
		Answer: moveCallToText(func(name, arguments string) string {
			return "<function=" + name + ">" + arguments + "</function>"
		})},
	{Name: "older functions", Source: "platform.openai.com/docs/api-reference/chat/object (function_call)",
		Answer: func(_, body, m Object) {
			if f := calledFunction(m); f != nil {
				delete(m, "tool_calls")
				m["function_call"], m["content"], FirstChoice(body)["finish_reason"] = f, nil, "function_call"
			}
		}},
}

// openAI is an error in OpenAI's form.
func openAI(message, param, code string) string {
	return fmt.Sprintf(`{"error":{"message":"%s","type":"invalid_request_error","param":"%s","code":"%s"}}`,
		message, param,
		code)
}

// refuseAsMistral refuses a member as Mistral does: the detail is JSON in a text.
func refuseAsMistral(member string) func(*http.Request, Object) (int, string) {
	detail := fmt.Sprintf(`{"detail":[{"type":"extra_forbidden","loc":["body","%s"],"msg":"Extra inputs are not `+
		`permitted"}]}`,
		member)
	return refuseMember(
		member,
		422,
		fmt.Sprintf(`{"object":"error","message":"%s","type":"internal_error_proxy","param":null,`+
			`"code":"1000"}`, strings.ReplaceAll(detail, `"`, `\"`)),
	)
}
