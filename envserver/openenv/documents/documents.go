// Package documents has the answers of a server that need no session: metadata, schemas, the
// OpenAPI document, a page of routes, and the lists of tasks.
package documents

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/csenv/csenv/envserver/episode"
	"sigs.k8s.io/yaml"
)

// Documents are the static answers of a server.
type Documents struct {
	Metadata, Schema, OpenAPI []byte
	// Page lists the routes as self-contained HTML.
	Page []byte
}

// jsonObject is a JSON object; encoding/json orders its members by name.
type jsonObject = map[string]any

// New makes the documents of an environment. Only those of simulation mode have /reset, /step and
// /state, by which OpenEnv clients recognise the mode.
func New(kind episode.Kind, version string, simulation bool) (Documents, error) {
	schemas := kind.Schemas()
	for name, schema := range map[string]json.RawMessage{"action": schemas.Action, "observation": schemas.Observation,
		"state": schemas.State} {
		if !json.Valid(schema) || bytes.TrimSpace(schema)[0] != '{' {
			return Documents{}, fmt.Errorf("the %s schema of environment %q is not a JSON object", name, kind.Name())
		}
	}
	openapi, err := openAPI(kind, simulation)
	if err != nil {
		return Documents{}, err
	}
	var d Documents
	for _, made := range []struct {
		document *[]byte
		content  jsonObject
	}{
		{&d.Metadata, jsonObject{
			"name": kind.Name(), "description": kind.Description(), "version": cmp.Or(version, "dev"),
			"author": nil, "readme_content": nil, "documentation_url": nil,
		}},
		{&d.Schema, jsonObject{
			"action": schemas.Action, "observation": schemas.Observation, "state": schemas.State,
			"reset_observation": schemas.Observation,
		}},
		{&d.OpenAPI, openapi},
	} {
		if *made.document, err = json.Marshal(made.content); err != nil {
			return Documents{}, fmt.Errorf("encoding the documents of environment %q: %w", kind.Name(), err)
		}
	}
	d.Page, err = newPage(kind, openapi)
	return d, err
}

//go:embed openapi.yaml
var openAPISource []byte

// openAPI completes the OpenAPI document, whose version 1.x OpenEnv clients require.
func openAPI(kind episode.Kind, simulation bool) (jsonObject, error) {
	var document jsonObject
	if err := yaml.Unmarshal(openAPISource, &document); err != nil {
		return nil, fmt.Errorf("parsing openapi.yaml: %w", err)
	}
	info := document["info"].(jsonObject)
	info["description"] = kind.Description() + " " + info["description"].(string)
	document["components"].(jsonObject)["schemas"].(jsonObject)["State"] = kind.Schemas().State
	if !simulation {
		paths := document["paths"].(jsonObject)
		for _, path := range []string{"/reset", "/step", "/state"} {
			delete(paths, path)
		}
	}
	return document, nil
}
