package openenv

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
)

// documents are the static answers of the server, made once.
type documents struct {
	metadata, schema, openapi []byte
	// page shows the routes to a person, without loading anything from anywhere.
	page []byte
}

// object is a JSON object in the making; encoding/json orders its members by name.
type object = map[string]any

func newDocuments(kind episode.Kind, version string, mode Mode) (documents, error) {
	schemas := kind.Schemas()
	for name, schema := range map[string]json.RawMessage{"action": schemas.Action, "observation": schemas.Observation,
		"state": schemas.State} {
		if !json.Valid(schema) || bytes.TrimSpace(schema)[0] != '{' {
			return documents{}, fmt.Errorf("the %s schema of environment %q is not a JSON object", name, kind.Name())
		}
	}
	if version == "" {
		version = "dev"
	}
	openapi := openapiDocument(kind, mode)
	var d documents
	var err error
	for _, made := range []struct {
		document *[]byte
		content  object
	}{
		{&d.metadata, metadataDocument(kind, version)},
		{&d.schema, object{
			"action": schemas.Action, "observation": schemas.Observation, "state": schemas.State,
			"reset_observation": schemas.Observation,
		}},
		{&d.openapi, openapi},
	} {
		if *made.document, err = json.Marshal(made.content); err != nil {
			return documents{}, fmt.Errorf("encoding the documents of environment %q: %w", kind.Name(), err)
		}
	}
	d.page, err = newPage(kind, openapi)
	return d, err
}

func metadataDocument(kind episode.Kind, version string) object {
	return object{
		"name": kind.Name(), "description": kind.Description(), "version": version,
		"author": nil, "readme_content": nil, "documentation_url": nil,
	}
}

// openapiDocument describes the HTTP routes. The version 1.x makes it the document of an OpenEnv
// server, and the paths /reset, /step and /state that of one in simulation mode; WebSocket routes
// don't appear in OpenAPI.
func openapiDocument(kind episode.Kind, mode Mode) object {
	paths := object{
		"/health":   get("Whether the server is alive", "HealthResponse"),
		"/metadata": get("What the environment is", "EnvironmentMetadata"),
		"/schema":   get("JSON Schemas of the action, the observation and the state", "SchemaResponse"),
		"/mcp": post("Call tools, and begin and end sessions, by JSON-RPC; an MCP server for clients "+
			"that begin with initialize", "JSONRPCRequest", "JSONRPCResponse", true),
		"/list_environments": get("Names of the environment and of its tasks", "Names"),
		"/ledger":            ledgerPath(),
	}
	for name, route := range map[string]object{
		"splits":     get("Splits of the tasks", "Splits"),
		"tasks":      post("Every task of a split", "TaskQuery", "Tasks", true),
		"num_tasks":  post("Number of tasks of a split", "TaskQuery", "TaskCount", true),
		"task":       post("One task of a split: reset(split, index) begins it", "TaskIndexQuery", "Task", true),
		"task_range": post("Tasks of a split from start to before stop", "TaskRangeQuery", "Tasks", true),
	} {
		paths["/{env_name}/"+name] = withParameter(route, object{"name": "env_name", "in": "path", "required": true,
			"schema": object{"type": "string"}})
	}
	if mode == Simulation {
		session := object{
			"name": "session_id", "in": "query", "required": false, "schema": object{"type": "string"},
			"description": "The session to play on; in the body or the header " + sessionHeader +
				" it means the same. Without one the request stands alone.",
		}
		paths["/state"] = withParameter(get("State of a session, or of a fresh environment", "State"), session)
		paths["/reset"] = withParameter(post("Begin an episode", "ResetRequest", "ResetResponse", false), session)
		paths["/step"] = withParameter(post("Play one action", "StepRequest", "StepResponse", true), session)
	}
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "OpenEnv Environment HTTP API", "version": "1.0.0",
			"description": kind.Description() + " An episode of many steps is played over the WebSocket /ws, or with " +
				"a session_id.",
		},
		"paths": paths, "components": object{"schemas": openapiSchemas(kind.Schemas())},
	}
}

// withParameter adds a parameter to each operation of a path.
func withParameter(path, parameter object) object {
	for _, operation := range path {
		operation.(object)["parameters"] = []object{parameter}
	}
	return path
}

func ref(component string) object { return object{"$ref": "#/components/schemas/" + component} }

func content(component string) object {
	return object{"application/json": object{"schema": ref(component)}}
}

func response(description, component string) object {
	return object{"description": description, "content": content(component)}
}

func get(summary, component string) object {
	return object{"get": object{"summary": summary,
		"responses": object{"200": response("Successful Response", component)}}}
}

func post(summary, request, answer string, required bool) object {
	return object{"post": object{
		"summary": summary, "requestBody": object{"required": required, "content": content(request)},
		"responses": object{"200": response("Successful Response", answer),
			"422": response("Validation Error", "HTTPValidationError")},
	}}
}

func ledgerPath() object {
	path := get("The signed ledger of one shard of an evaluation run", "SignedLedger")
	operation := path["get"].(object)
	operation["parameters"] = []object{
		{"name": "run", "in": "query", "required": true, "schema": object{"type": "string"},
			"description": "UID of the run."},
		{"name": "shard", "in": "query", "required": true, "schema": object{"type": "integer", "minimum": 0}},
	}
	operation["responses"].(object)["404"] = object{"description": "No episode of the shard was played here"}
	return path
}

func property(kind any, description string) object {
	return object{"type": kind, "description": description}
}

func structure(required []string, properties object) object {
	return object{"type": "object", "properties": properties, "required": required}
}

func closed(required []string, properties object) object {
	schema := structure(required, properties)
	schema["additionalProperties"] = false
	return schema
}

func openapiSchemas(schemas episode.Schemas) object {
	text, nullableText := []string{"string"}, []string{"string", "null"}
	result := structure([]string{"observation", "done"}, object{
		"observation": object{"type": "object", "description": "The observation as /schema describes it, without " +
			"reward and done."},
		"reward":   property([]string{"number", "null"}, "Reward of this step alone."),
		"done":     property("boolean", "Whether the episode is over."),
		"metadata": property("object", "At the end of an episode: its score and how it came about."),
	})
	return object{
		"HealthResponse": structure([]string{"status"}, object{"status": ref("HealthStatus")}),
		"HealthStatus":   object{"type": "string", "enum": []string{"healthy", "unhealthy", "degraded"}},
		"EnvironmentMetadata": structure([]string{"name", "description"}, object{
			"name": property(text, "Name of the environment."), "description": property(text, "What it is."),
			"readme_content": property(nullableText, "README of the environment."),
			"version":        property(nullableText, "Version of the server."),
			"author":         property(nullableText, "Author."), "documentation_url": property(nullableText,
				"Where to read more."),
		}),
		"SchemaResponse": structure([]string{"action", "observation", "state"}, object{
			"action": object{"type": "object"}, "observation": object{"type": "object"},
			"state":             object{"type": "object"},
			"reset_observation": object{"type": "object"},
		}),
		"State":        schemas.State,
		"ResetRequest": object{"type": "object", "properties": resetProperties(), "additionalProperties": true},
		"StepRequest": object{"type": "object", "required": []string{"action"}, "additionalProperties": true,
			"properties": stepProperties()},
		"ResetResponse": result, "StepResponse": result,
		"JSONRPCRequest": object{"type": "object", "required": []string{"jsonrpc", "method"},
			"additionalProperties": false, "properties": object{
				"jsonrpc": object{"const": "2.0"}, "id": object{"type": []string{"string", "integer", "null"}},
				"method": property("string", "tools/list, tools/call, openenv/session/create or openenv/session/close; "+
					"or a method of MCP."), "params": object{"type": "object"},
			}},
		"JSONRPCResponse": structure([]string{"jsonrpc", "id"}, object{
			"jsonrpc": object{"const": "2.0"}, "id": object{"type": []string{"string", "integer", "null"}},
			"result": object{}, "error": object{"type": "object"},
		}),
		"Names": object{"type": "array", "items": object{"type": "string"}},
		"Splits": object{"type": "array", "items": structure([]string{"name", "type"},
			object{"name": object{"type": "string"}, "type": object{"enum": []string{"train", "validation", "test"}}})},
		"TaskQuery": closed([]string{"split"}, object{"split": property("string", "Name of a split.")}),
		"TaskIndexQuery": closed([]string{"split", "index"}, object{"split": property("string", "Name of a split."),
			"index": property("integer", "Place in the split, from 0.")}),
		"TaskRangeQuery": closed([]string{"split"}, object{
			"split": property("string", "Name of a split."), "start": property([]string{"integer", "null"},
				"First index."), "stop": property([]string{"integer", "null"}, "Index after the last."),
		}),
		"TaskSpec": structure([]string{"id", "index", "split", "task", "scenario"}, object{
			"id": object{"type": "string"}, "index": object{"type": "integer"}, "split": object{"type": "string"},
			"task":     object{"type": "string"},
			"scenario": object{"type": "string"}, "difficulty": object{"type": "string"},
			"language": object{"type": "string"},
		}),
		"Task": structure([]string{"task"}, object{"task": ref("TaskSpec")}),
		"Tasks": structure([]string{"tasks"}, object{"tasks": object{"type": "array", "items": ref("TaskSpec")},
			"env_name": object{"type": "string"}}),
		"TaskCount": structure([]string{"num_tasks"}, object{"num_tasks": object{"type": "integer", "minimum": 0}}),
		"SignedLedger": structure([]string{"payload", "signature"}, object{
			"payload":   property("string", "The ledger, base64."),
			"signature": property("string", "Ed25519 signature by the pool's key, base64."),
		}),
		"HTTPValidationError": structure([]string{"detail"},
			object{"detail": object{"type": "array", "items": ref("ValidationError")}}),
		"ValidationError": structure([]string{"loc", "msg", "type"}, object{
			"loc": object{"type": "array", "items": object{"type": []string{"string", "integer"}}},
			"msg": property("string", "What to send instead."), "type": property("string", "Name of the fault."),
			"input": object{},
		}),
	}
}

func resetProperties() object {
	return object{
		"seed": object{"type": []string{"integer", "null"}, "minimum": 0,
			"description": "Draws every value of the episode; drawn itself when absent."},
		"episode_id": object{"type": []string{"string", "null"}, "maxLength": maxOptionText,
			"description": "Reported by the state."},
		"task":     property([]string{"string", "null"}, "One of the environment's tasks."),
		"scenario": property([]string{"string", "null"}, "One scenario of the task; task_id means the same."),
		"split":    property([]string{"string", "null"}, "A split of the Task API, to draw the task from."),
		"index": object{"type": []string{"integer", "null"}, "minimum": 0,
			"description": "The task of the split; drawn by the seed when absent."},
		"session_id": property([]string{"string", "null"},
			"The session to play on. Without one the request stands alone."),
		"reward_mode": object{"enum": []any{episode.Dense, episode.Terminal, nil},
			"description": "When reward is paid."},
		"run": property([]string{"string", "null"}, "Name of an EvaluationRun of type External, which counts "+
			"the episode; needs a session."),
	}
}

func stepProperties() object {
	properties := resetProperties()
	properties["action"] = property("object", "The action as /schema describes it.")
	properties["timeout_s"] = object{"type": []string{"number", "null"}, "exclusiveMinimum": 0,
		"description": "Longest time for the step, in seconds."}
	properties["request_id"] = object{"type": []string{"string", "null"}, "maxLength": maxOptionText,
		"description": "For the client's own use."}
	return properties
}
