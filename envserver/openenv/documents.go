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
}

// object is a JSON object in the making; encoding/json orders its members by name.
type object = map[string]any

func newDocuments(kind episode.Kind, version string) (documents, error) {
	schemas := kind.Schemas()
	for name, schema := range map[string]json.RawMessage{"action": schemas.Action, "observation": schemas.Observation, "state": schemas.State} {
		if !json.Valid(schema) || bytes.TrimSpace(schema)[0] != '{' {
			return documents{}, fmt.Errorf("the %s schema of environment %q is not a JSON object", name, kind.Name())
		}
	}
	if version == "" {
		version = "dev"
	}
	var d documents
	var err error
	for _, made := range []struct {
		document *[]byte
		content  object
	}{
		{&d.metadata, metadataDocument(kind, version)},
		{&d.schema, object{
			"action": schemas.Action, "observation": schemas.Observation, "state": schemas.State, "reset_observation": schemas.Observation,
		}},
		{&d.openapi, openapiDocument(kind)},
	} {
		if *made.document, err = json.Marshal(made.content); err != nil {
			return documents{}, fmt.Errorf("encoding the documents of environment %q: %w", kind.Name(), err)
		}
	}
	return d, nil
}

func metadataDocument(kind episode.Kind, version string) object {
	return object{
		"name": kind.Name(), "description": kind.Description(), "version": version,
		"author": nil, "readme_content": nil, "documentation_url": nil,
	}
}

// openapiDocument describes the HTTP routes. The version 1.x and the paths /reset, /step and /state make it the document of an OpenEnv server in
// simulation mode; WebSocket routes don't appear in OpenAPI.
func openapiDocument(kind episode.Kind) object {
	return object{
		"openapi": "3.1.0",
		"info": object{
			"title": "OpenEnv Environment HTTP API", "version": "1.0.0",
			"description": kind.Description() + " The routes below are stateless; an episode of many steps is played over the WebSocket /ws.",
		},
		"paths": object{
			"/health":   get("Whether the server is alive", "HealthResponse"),
			"/metadata": get("What the environment is", "EnvironmentMetadata"),
			"/schema":   get("JSON Schemas of the action, the observation and the state", "SchemaResponse"),
			"/state":    get("State of a fresh environment", "State"),
			"/reset":    post("Begin an episode and discard it", "ResetRequest", "ResetResponse", false),
			"/step":     post("Begin an episode, play one action and discard it", "StepRequest", "StepResponse", true),
			"/ledger":   ledgerPath(),
		},
		"components": object{"schemas": openapiSchemas(kind.Schemas())},
	}
}

func ref(component string) object { return object{"$ref": "#/components/schemas/" + component} }

func content(component string) object {
	return object{"application/json": object{"schema": ref(component)}}
}

func response(description, component string) object {
	return object{"description": description, "content": content(component)}
}

func get(summary, component string) object {
	return object{"get": object{"summary": summary, "responses": object{"200": response("Successful Response", component)}}}
}

func post(summary, request, answer string, required bool) object {
	return object{"post": object{
		"summary": summary, "requestBody": object{"required": required, "content": content(request)},
		"responses": object{"200": response("Successful Response", answer), "422": response("Validation Error", "HTTPValidationError")},
	}}
}

func ledgerPath() object {
	path := get("The signed ledger of one shard of an evaluation run", "SignedLedger")
	operation := path["get"].(object)
	operation["parameters"] = []object{
		{"name": "run", "in": "query", "required": true, "schema": object{"type": "string"}, "description": "UID of the run."},
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

func openapiSchemas(schemas episode.Schemas) object {
	text, nullableText := []string{"string"}, []string{"string", "null"}
	result := structure([]string{"observation", "done"}, object{
		"observation": object{"type": "object", "description": "The observation as /schema describes it, without reward and done."},
		"reward":      property([]string{"number", "null"}, "Reward of this step alone."),
		"done":        property("boolean", "Whether the episode is over."),
		"metadata":    property("object", "At the end of an episode: its score and how it came about."),
	})
	return object{
		"HealthResponse": structure([]string{"status"}, object{"status": ref("HealthStatus")}),
		"HealthStatus":   object{"type": "string", "enum": []string{"healthy", "unhealthy", "degraded"}},
		"EnvironmentMetadata": structure([]string{"name", "description"}, object{
			"name": property(text, "Name of the environment."), "description": property(text, "What it is."),
			"readme_content": property(nullableText, "README of the environment."), "version": property(nullableText, "Version of the server."),
			"author": property(nullableText, "Author."), "documentation_url": property(nullableText, "Where to read more."),
		}),
		"SchemaResponse": structure([]string{"action", "observation", "state"}, object{
			"action": object{"type": "object"}, "observation": object{"type": "object"}, "state": object{"type": "object"},
			"reset_observation": object{"type": "object"},
		}),
		"State":         schemas.State,
		"ResetRequest":  object{"type": "object", "properties": resetProperties(), "additionalProperties": true},
		"StepRequest":   object{"type": "object", "required": []string{"action"}, "additionalProperties": true, "properties": stepProperties()},
		"ResetResponse": result, "StepResponse": result,
		"SignedLedger": structure([]string{"payload", "signature"}, object{
			"payload":   property("string", "The ledger, base64."),
			"signature": property("string", "Ed25519 signature by the pool's key, base64."),
		}),
		"HTTPValidationError": structure([]string{"detail"}, object{"detail": object{"type": "array", "items": ref("ValidationError")}}),
		"ValidationError": structure([]string{"loc", "msg", "type"}, object{
			"loc": object{"type": "array", "items": object{"type": []string{"string", "integer"}}},
			"msg": property("string", "What to send instead."), "type": property("string", "Name of the fault."), "input": object{},
		}),
	}
}

func resetProperties() object {
	return object{
		"seed":        object{"type": []string{"integer", "null"}, "minimum": 0, "description": "Draws every value of the episode; drawn itself when absent."},
		"episode_id":  object{"type": []string{"string", "null"}, "maxLength": maxOptionText, "description": "Reported by the state."},
		"task":        property([]string{"string", "null"}, "One of the environment's tasks."),
		"scenario":    property([]string{"string", "null"}, "One scenario of the task; task_id means the same."),
		"reward_mode": object{"enum": []any{episode.Dense, episode.Terminal, nil}, "description": "When reward is paid."},
	}
}

func stepProperties() object {
	properties := resetProperties()
	properties["action"] = property("object", "The action as /schema describes it.")
	properties["timeout_s"] = object{"type": []string{"number", "null"}, "exclusiveMinimum": 0, "description": "Longest time for the step, in seconds."}
	properties["request_id"] = object{"type": []string{"string", "null"}, "maxLength": maxOptionText, "description": "For the client's own use."}
	return properties
}
