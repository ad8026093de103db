package policy

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// The instructions of the models: a file for each environment and each task, and some for all. They
// describe the job and its grading as the documentation does, and no scenario.
//
//go:embed prompt/*.txt
var promptFiles embed.FS

// readInstruction is a file of the instructions, "" if it doesn't exist: a task needs no file of
// its own.
func readInstruction(name string) string {
	text, err := promptFiles.ReadFile("prompt/" + name + ".txt")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// systemPrompt are a model's instructions. The owner's text replaces the description of the job,
// but not the description of answers.
func systemPrompt(own, environment, task string, mode Mode, tools []tool) string {
	parts := []string{own}
	if own == "" {
		parts = []string{readInstruction(environment), readInstruction(task)}
	}
	parts = append(parts, readInstruction("data"))
	if mode == ModeTools {
		parts = append(parts, readInstruction("tools"))
	} else {
		parts = append(parts, readInstruction("json")+"\n"+describeTools(tools))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n")
}

// describeTools lists the actions for a model without tools: an example and a description of each.
func describeTools(tools []tool) string {
	var out strings.Builder
	for _, t := range tools {
		fmt.Fprintf(&out, "%s\n  %s", t.example(), t.Description)
		if len(t.required) > 0 {
			fmt.Fprintf(&out, " Required: %s.", strings.Join(t.required, ", "))
		}
		out.WriteString("\n")
	}
	return strings.TrimSpace(out.String())
}

// example is an action with descriptions in place of its arguments.
func (t tool) example() string {
	members := make([]string, len(t.parameters))
	for i, p := range t.parameters {
		members[i] = fmt.Sprintf("%q: %q", p.name, p.placeholder())
	}
	arguments := strings.Join(members, ", ")
	switch {
	case t.Object != "":
		return fmt.Sprintf("{%q: %q, %q: {%s}}", actionType, t.Name, t.Object, arguments)
	case arguments == "":
		return fmt.Sprintf("{%q: %q}", actionType, t.Name)
	}
	return fmt.Sprintf("{%q: %q, %s}", actionType, t.Name, arguments)
}

// placeholder replaces the argument in an example.
func (p parameter) placeholder() string {
	if p.enum != nil {
		return strings.Join(p.enum, " | ")
	}
	return "<" + p.description + ">"
}
