package documents

// toolMembers are the members of the observations that answer a step with call_tool or list_tools
// (CallToolObservation and ListToolsObservation of OpenEnv), and of the one that answers an invalid
// action of an episode with a penalty.
var toolMembers = jsonObject{
	"tools": jsonObject{"type": "array", "items": jsonObject{"type": "object"},
		"description": "Answers list_tools: the tools."},
	"tool_name": jsonObject{"type": "string", "description": "Answers call_tool: the tool."},
	"result": jsonObject{"type": []string{"object", "null"},
		"description": "Answers call_tool: the tool's result, null after an error."},
	"error": jsonObject{"type": []string{"object", "null"},
		"description": "Answers call_tool: error_type and message, null after a success."},
	"errors": jsonObject{"type": "array", "items": jsonObject{"type": "object"},
		"description": "The faults of an invalid action, in an episode with an invalid_action_penalty."},
	"feedback": jsonObject{"type": "string", "description": "What the last action did."},
}
