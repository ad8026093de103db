package documents

import (
	"encoding/json"
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
)

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

// observationSchema returns the schema of all observations. Some clients read the names of the
// fields from properties, so those of a typed observation stay there and only required differs.
func observationSchema(kind episode.Kind) (jsonObject, error) {
	var schema jsonObject
	if err := json.Unmarshal(kind.Schemas().Observation, &schema); err != nil {
		return nil, fmt.Errorf("reading the observation schema of environment %q: %w", kind.Name(), err)
	}
	properties, _ := schema["properties"].(jsonObject)
	if properties == nil {
		properties = jsonObject{}
	}
	for name, member := range toolMembers {
		if _, own := properties[name]; !own {
			properties[name] = member
		}
	}
	typed := jsonObject{}
	if required, ok := schema["required"]; ok {
		typed["required"] = required
		delete(schema, "required")
	}
	schema["properties"] = properties
	schema["anyOf"] = []any{typed, jsonObject{"required": []string{"tools"}},
		jsonObject{"required": []string{"tool_name", "result", "error"}}}
	return schema, nil
}

// stateSchema adds what the server reports with every state.
func stateSchema(kind episode.Kind) (jsonObject, error) {
	var schema jsonObject
	if err := json.Unmarshal(kind.Schemas().State, &schema); err != nil {
		return nil, fmt.Errorf("reading the state schema of environment %q: %w", kind.Name(), err)
	}
	if properties, ok := schema["properties"].(jsonObject); ok {
		properties["dataset_size"] = jsonObject{"type": "integer", "minimum": 0,
			"description": "Tasks of the split train, which row_index of a reset counts."}
	}
	return schema, nil
}
