package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/envserver/openenv/client"
)

// maxGuesses bounds the actions that are tried on a server.
const maxGuesses = 64

// Guess finds an action that an unknown server takes: actions that its action schema seems to allow
// are played one after the other until one is answered without an error, one that doesn't end the
// episode first. It needs one session. The error of a server that can't be asked is openenv's;
// otherwise it says which actions were refused.
func Guess(ctx context.Context, url string, reset json.RawMessage, o client.Options) (json.RawMessage, error) {
	schema, err := client.FetchSchema(ctx, url, o)
	if err != nil {
		return nil, err
	}
	candidates, err := candidates(schema.Action)
	if err != nil {
		return nil, err
	}
	o.Spread = true
	session, err := client.Dial(ctx, url, o)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	return try(ctx, session, reset, candidates)
}

// Try plays the reset and one action, which must be taken.
func Try(ctx context.Context, url string, reset, action json.RawMessage, o client.Options) error {
	o.Spread = true
	session, err := client.Dial(ctx, url, o)
	if err != nil {
		return err
	}
	defer session.Close()
	_, err = try(ctx, session, reset, []json.RawMessage{action})
	return err
}

func try(ctx context.Context, session *client.Client, reset json.RawMessage,
	candidates []json.RawMessage) (json.RawMessage, error) {
	if len(reset) == 0 {
		reset = json.RawMessage("{}")
	}
	var ending json.RawMessage
	var refusal error
	for _, action := range candidates {
		if _, err := session.Reset(ctx, reset); err != nil {
			return nil, err
		}
		observation, err := session.Step(ctx, action)
		if refused, ok := errors.AsType[*client.ServerError](err); ok {
			refusal = fmt.Errorf("the server refuses the action %.200s: %w", action, refused)
			continue
		}
		switch {
		case err != nil:
			return nil, err
		case !observation.Done:
			return action, nil
		case ending == nil:
			ending = action
		}
	}
	if ending != nil {
		return ending, nil
	}
	return nil, refusal
}

// object is a JSON object, such as a schema.
type object = map[string]any

// candidates are actions that the schema seems to allow: one for each value of the first property
// that must be one of several.
func candidates(raw json.RawMessage) ([]json.RawMessage, error) {
	var root object
	if err := json.Unmarshal(raw, &root); err != nil || root == nil {
		return nil, fmt.Errorf("the server's action schema is no JSON object: %.200s", raw)
	}
	s := sampler{root}
	choices := []object{{}}
	if name, values := s.choice(root); name != "" {
		choices = nil
		for _, value := range values[:min(len(values), maxGuesses)] {
			choices = append(choices, object{name: value})
		}
	}
	var encoded []json.RawMessage
	for _, chosen := range choices {
		s.complete(chosen, root, 0)
		action, err := json.Marshal(chosen)
		if err != nil {
			return nil, fmt.Errorf("writing an action: %w", err)
		}
		encoded = append(encoded, action)
	}
	return encoded, nil
}

// sampler makes values of a schema (JSON Schema, as pydantic writes it). It follows types,
// enumerations, references and conditions, and no bounds but the least number and the least length:
// a value that is outside its schema is refused by the server.
type sampler struct{ root object }

// maxDepth bounds how deep a schema is followed.
const maxDepth = 8

// choice is the first required property, by name, that has several values.
func (s sampler) choice(schema object) (string, []any) {
	properties, _ := schema["properties"].(object)
	required := texts(schema["required"])
	slices.Sort(required)
	for _, name := range required {
		property := s.resolve(properties[name])
		if values, ok := property["enum"].([]any); ok && len(values) > 1 {
			return name, values
		}
	}
	return "", nil
}

// complete gives an object the members that the schema requires of it.
func (s sampler) complete(value, schema object, depth int) {
	if depth > maxDepth {
		return
	}
	properties, _ := schema["properties"].(object)
	for _, name := range texts(schema["required"]) {
		if _, ok := value[name]; !ok {
			value[name] = s.value(s.property(name, properties), depth+1)
		}
	}
	for _, part := range list(schema["allOf"]) {
		part := s.resolve(part)
		if condition, ok := part["if"].(object); ok {
			if then, ok := part["then"].(object); ok && s.holds(value, condition) {
				s.complete(value, then, depth+1)
			}
			continue
		}
		s.complete(value, part, depth+1)
	}
	if options := list(schema["anyOf"]); len(options) > 0 {
		s.complete(value, s.resolve(options[0]), depth+1)
	}
}

// property is the schema of a member: the condition that requires a member often leaves it to the
// root to say what it is.
func (s sampler) property(name string, properties object) object {
	root, _ := s.root["properties"].(object)
	if declared, ok := root[name]; ok {
		return s.resolve(declared)
	}
	return s.resolve(properties[name])
}

// holds tells whether the constants of a condition are the object's.
func (s sampler) holds(value, condition object) bool {
	properties, _ := condition["properties"].(object)
	for name, property := range properties {
		if constant, ok := s.resolve(property)["const"]; ok && value[name] != constant {
			return false
		}
	}
	return true
}

// value makes a value of a schema.
func (s sampler) value(schema object, depth int) any {
	if constant, ok := schema["const"]; ok {
		return constant
	}
	if values := list(schema["enum"]); len(values) > 0 {
		return values[0]
	}
	if usual, ok := schema["default"]; ok && usual != nil {
		return usual
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		for _, option := range list(schema[key]) {
			if option := s.resolve(option); option["type"] != "null" && depth <= maxDepth {
				return s.value(option, depth+1)
			}
		}
	}
	return s.ofType(schema, depth)
}

func (s sampler) ofType(schema object, depth int) any {
	kind, _ := schema["type"].(string)
	if kinds := texts(schema["type"]); len(kinds) > 0 {
		kind = kinds[0]
	}
	switch kind {
	case "integer", "number":
		if least, ok := schema["minimum"].(float64); ok {
			return least
		}
		return 1
	case "boolean":
		return false
	case "array":
		return []any{}
	case "object":
		value := object{}
		s.complete(value, schema, depth)
		return value
	}
	return "How are you?"
}

// resolve follows a reference to a definition.
func (s sampler) resolve(schema any) object {
	for range maxDepth {
		o, _ := schema.(object)
		reference, ok := o["$ref"].(string)
		if !ok {
			return o
		}
		definitions, _ := s.root["$defs"].(object)
		schema = definitions[lastPart(reference)]
	}
	return nil
}

func lastPart(reference string) string {
	return reference[strings.LastIndexByte(reference, '/')+1:]
}

func list(v any) []any {
	values, _ := v.([]any)
	return values
}

func texts(v any) []string {
	var all []string
	for _, value := range list(v) {
		if text, ok := value.(string); ok {
			all = append(all, text)
		}
	}
	return all
}
