package documents

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/html"

	"github.com/csenv/csenv/envserver/episode"
)

//go:embed page.html
var pageSource string

// operation is a route of the page.
type operation struct {
	Method, Path, Summary string
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
