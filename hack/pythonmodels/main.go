// Command pythonmodels writes the fields of the Python package's actions, observations and states
// from the schemas that the servers publish, to standard output.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/scenarios"
)

const head = `"""Fields of the messages of both environments. "make generate" writes them: don't edit it."""

from __future__ import annotations

from typing import Any, Literal

from openenv.core.env_server.types import Action, Observation, State
from pydantic import BaseModel, ConfigDict, Field
`

// schema is the part of a JSON Schema that decides the type of a Python field.
type schema struct {
	Type       any               `json:"type"`
	Enum       []any             `json:"enum"`
	AnyOf      []schema          `json:"anyOf"`
	Ref        string            `json:"$ref"`
	Items      *schema           `json:"items"`
	Properties members           `json:"properties"`
	Required   []string          `json:"required"`
	Defs       map[string]schema `json:"$defs"`
}

type member struct {
	name string
	schema
}

// members are the properties of an object in the order of the schema.
type members []member

func (m *members) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if _, err := decoder.Token(); err != nil {
		return err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return err
		}
		next := member{name: name.(string)}
		if err := decoder.Decode(&next.schema); err != nil {
			return err
		}
		*m = append(*m, next)
	}
	return nil
}

// class is a Python class to write. Its base declares the inherited fields.
type class struct {
	name, base, about string
	inherited         []string
	text              json.RawMessage
}

func main() {
	log.SetFlags(0)
	if err := printModels(); err != nil {
		log.Fatalf("writing the Python models: %v", err)
	}
}

func printModels() error {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return err
	}
	tickets, err := ticket.New(catalog, offline.New())
	if err != nil {
		return err
	}
	workflows, err := workflow.New(catalog, offline.New())
	if err != nil {
		return err
	}
	var out strings.Builder
	out.WriteString(head)
	classes := append(classesOf("TicketAction", "CustomerSupport", tickets.Schemas()),
		classesOf("CSRAction", "CSR", workflows.Schemas())...)
	for _, c := range classes {
		if err := writeClass(&out, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	_, err = os.Stdout.WriteString(out.String())
	return err
}

func classesOf(action, environment string, schemas episode.Schemas) []class {
	return []class{
		{action, "Action", "An action. Set only the fields that the action type uses.", []string{"metadata"},
			schemas.Action},
		{environment + "Observation", "Observation", "What the agent sees. A field is None where it doesn't apply.",
			[]string{"done", "reward", "metadata"}, schemas.Observation},
		{environment + "State", "State", "The state of an episode.", []string{"episode_id", "step_count"},
			schemas.State},
	}
}

func writeClass(out *strings.Builder, c class) error {
	var object schema
	if err := json.Unmarshal(c.text, &object); err != nil {
		return err
	}
	var aliases, items, fields strings.Builder
	for _, m := range object.Properties {
		if slices.Contains(c.inherited, m.name) {
			continue
		}
		kind, initial := pythonType(m.schema, object.Defs)
		switch {
		case c.base == "Action" && m.name == "action_type":
			initial = ""
			kind = literalType(m.Enum)
		case c.base == "Action" && len(m.Enum) > 0:
			alias := strings.ToUpper(m.name[:1]) + m.name[1:]
			fmt.Fprintf(&aliases, "\n%s = %s\n", alias, literalType(m.Enum))
			kind, initial = optional(alias), "None"
		case c.base == "Action" && m.Items != nil:
			item := strings.ToUpper(m.name[:1]) + strings.TrimSuffix(m.name[1:], "s")
			writeItem(&items, item, m.name, *m.Items)
			kind, initial = optional("list["+item+"]"), "None"
		case c.base == "Action", c.base == "Observation" && !slices.Contains(object.Required, m.name):
			kind, initial = optional(kind), "None"
		}
		fmt.Fprintf(&fields, "    %s: %s", m.name, kind)
		if initial != "" {
			fields.WriteString(" = " + initial)
		}
		fields.WriteString("\n")
	}
	out.WriteString(strings.ReplaceAll(aliases.String(), "\n\n", "\n") + items.String())
	fmt.Fprintf(out, "\n\nclass %s(%s):\n    \"\"\"%s\"\"\"\n\n", c.name, c.base, c.about)
	if c.base == "Observation" { // A newer server may add fields.
		out.WriteString("    model_config = ConfigDict(extra=\"allow\")\n\n")
	}
	out.WriteString(fields.String())
	return nil
}

// writeItem writes the class of the objects in a list of an action.
func writeItem(out *strings.Builder, name, list string, object schema) {
	fmt.Fprintf(out, "\n\nclass %s(BaseModel):\n    \"\"\"One of the %s of an action.\"\"\"\n\n", name, list)
	out.WriteString("    model_config = ConfigDict(extra=\"forbid\")\n\n")
	for _, m := range object.Properties {
		kind := literalType(m.Enum)
		if len(m.Enum) == 0 {
			types, _ := typesOf(m.schema)
			for i, t := range types {
				types[i], _ = plainType([]string{t}, m.schema, nil)
			}
			kind = strings.ReplaceAll(strings.Join(types, " | "), "float", "int | float") // to keep integers
		}
		fmt.Fprintf(out, "    %s: %s\n", m.name, kind)
	}
}

// pythonType returns the type of a field and the value that it has if a server leaves it out.
func pythonType(s schema, defs map[string]schema) (kind, initial string) {
	if s.Ref != "" {
		s = defs[strings.TrimPrefix(s.Ref, "#/$defs/")]
	}
	types, nullable := typesOf(s)
	if len(s.AnyOf) > 0 {
		for _, variant := range s.AnyOf {
			if variant.Type == "null" {
				nullable = true
			} else {
				kind, initial = pythonType(variant, defs)
			}
		}
	} else {
		kind, initial = plainType(types, s, defs)
	}
	if nullable {
		return optional(kind), "None"
	}
	return kind, initial
}

func plainType(types []string, s schema, defs map[string]schema) (kind, initial string) {
	if len(types) != 1 {
		return "Any", "None"
	}
	switch types[0] {
	case "string":
		return "str", `""`
	case "integer":
		return "int", "0"
	case "number":
		return "float", "0.0"
	case "boolean":
		return "bool", "False"
	case "array":
		item := "Any"
		if s.Items != nil {
			item, _ = pythonType(*s.Items, defs)
		}
		return "list[" + item + "]", "Field(default_factory=list)"
	}
	value := "Any"
	if len(s.Properties) > 0 && !slices.ContainsFunc(s.Properties, func(m member) bool { return m.Type != "string" }) {
		value = "str"
	}
	return "dict[str, " + value + "]", "Field(default_factory=dict)"
}

// typesOf returns the types that a schema lists, without null.
func typesOf(s schema) (types []string, nullable bool) {
	switch t := s.Type.(type) {
	case string:
		types = []string{t}
	case []any:
		for _, name := range t {
			if name == "null" {
				nullable = true
			} else {
				types = append(types, name.(string))
			}
		}
	}
	return types, nullable
}

func optional(kind string) string {
	if strings.HasSuffix(kind, " | None") || kind == "Any" {
		return kind
	}
	return kind + " | None"
}

func literalType(values []any) string {
	var quoted []string
	for _, v := range values {
		if text, ok := v.(string); ok {
			quoted = append(quoted, fmt.Sprintf("%q", text))
		}
	}
	if line := "Literal[" + strings.Join(quoted, ", ") + "]"; len(line) < 120 {
		return line
	}
	return "Literal[\n        " + strings.Join(quoted, ",\n        ") + ",\n    ]"
}
