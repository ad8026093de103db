// Package documents has the answers of a server that need no session: metadata, schemas, the
// OpenAPI document, a page of routes, and the lists of tasks.
package documents

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/web/template"
)

// Documents are the static answers of a server.
type Documents struct {
	Metadata, Schema, OpenAPI []byte
	// TaskSchemas are Schema for each task, with the actions that it allows.
	TaskSchemas map[string][]byte
	// Page lists the routes as self-contained HTML.
	Page []byte
}

// jsonObject is a JSON object; encoding/json orders its members by name.
type jsonObject = map[string]any

// New makes the documents of an environment. Only in simulation mode they have /reset, /step and
// /state, by which OpenEnv clients recognise the mode.
func New(kind episode.Kind, version string, simulation bool) (Documents, error) {
	schemas := kind.Schemas()
	for name, schema := range map[string]json.RawMessage{"action": schemas.Action, "observation": schemas.Observation,
		"state": schemas.State} {
		if !json.Valid(schema) || bytes.TrimSpace(schema)[0] != '{' {
			return Documents{}, fmt.Errorf("the %s schema of environment %q is not a JSON object", name, kind.Name())
		}
	}
	observation, err := observationSchema(kind)
	if err != nil {
		return Documents{}, err
	}
	state, err := stateSchema(kind)
	if err != nil {
		return Documents{}, err
	}
	openapi, err := openAPI(kind, state, simulation)
	if err != nil {
		return Documents{}, err
	}
	d := Documents{TaskSchemas: map[string][]byte{}}
	described := func(action json.RawMessage) jsonObject {
		return jsonObject{"action": action, "observation": observation, "state": state,
			"reset_observation": schemas.Observation}
	}
	for _, task := range kind.Tasks() {
		action, err := schemas.ActionOf(task.Name)
		if err != nil {
			return Documents{}, fmt.Errorf("the schema of task %s: %w", task.Name, err)
		}
		if d.TaskSchemas[task.Name], err = json.Marshal(described(action)); err != nil {
			return Documents{}, fmt.Errorf("encoding the schema of task %s: %w", task.Name, err)
		}
	}
	for _, made := range []struct {
		document *[]byte
		content  jsonObject
	}{
		{&d.Metadata, jsonObject{
			"name": kind.Name(), "description": kind.Description(), "version": cmp.Or(version, "dev"),
			"author": nil, "readme_content": nil, "documentation_url": nil,
		}},
		{&d.Schema, described(schemas.Action)},
		{&d.OpenAPI, openapi},
	} {
		if *made.document, err = json.Marshal(made.content); err != nil {
			return Documents{}, fmt.Errorf("encoding the documents of environment %q: %w", kind.Name(), err)
		}
	}
	d.Page, err = newPage(kind, openapi)
	return d, err
}

// newPage renders the routes of the OpenAPI document.
func newPage(kind episode.Kind, openapi jsonObject) ([]byte, error) {
	layout, err := template.New("page").Parse(pageSource)
	if err != nil {
		return nil, fmt.Errorf("parsing the page of routes: %w", err)
	}
	var operations []operation
	paths := openapi["paths"].(jsonObject)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for method, described := range paths[path].(jsonObject) {
			operations = append(operations, operation{strings.ToUpper(method), path,
				described.(jsonObject)["summary"].(string)})
		}
	}
	schemas := kind.Schemas()
	var action, observation bytes.Buffer
	if err := json.Indent(&action, schemas.Action, "", "  "); err != nil {
		return nil, fmt.Errorf("showing the action schema: %w", err)
	}
	if err := json.Indent(&observation, schemas.Observation, "", "  "); err != nil {
		return nil, fmt.Errorf("showing the observation schema: %w", err)
	}
	var out bytes.Buffer
	err = layout.Execute(&out, map[string]any{
		"Name": kind.Name(), "Description": kind.Description(), "Operations": operations, "Tools": schemas.Tools,
		"Action": action.String(), "Observation": observation.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("writing the page of routes: %w", err)
	}
	return out.Bytes(), nil
}

// observationSchema returns the schema of all observations. Some clients read the names of the
// fields from properties, so a typed observation's stay there and only required differs.
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

// simulationOnly are the routes by which orchestrators play.
var simulationOnly = []string{"/reset", "/step", "/state", "/create_session", "/create", "/ping", "/delete",
	"/delete_session", "/{env_name}/prompt", "/{env_name}/messages", "/{env_name}/task_tools", "/{env_name}/call"}

//go:embed openapi.yaml
var openAPISource []byte

// openAPI completes the OpenAPI document, whose version 1.x OpenEnv clients require.
func openAPI(kind episode.Kind, state jsonObject, simulation bool) (jsonObject, error) {
	var document jsonObject
	if err := yaml.Unmarshal(openAPISource, &document); err != nil {
		return nil, fmt.Errorf("parsing openapi.yaml: %w", err)
	}
	info := document["info"].(jsonObject)
	info["description"] = kind.Description() + " " + info["description"].(string)
	document["components"].(jsonObject)["schemas"].(jsonObject)["State"] = state
	if !simulation {
		paths := document["paths"].(jsonObject)
		for _, path := range simulationOnly {
			delete(paths, path)
		}
	}
	return document, nil
}

//go:embed page.html
var pageSource string

// operation is a route of the page.
type operation struct {
	Method, Path, Summary string
}

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
