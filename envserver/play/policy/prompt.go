package policy

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
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
	parts = append(parts, explainFacts(tools), readInstruction("data"))
	if mode == ModeTools {
		parts = append(parts, readInstruction("tools"))
	} else {
		parts = append(parts, readInstruction("json")+"\n"+describeTools(tools))
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n\n")
}

// explainFacts are the instructions on the facts beside a message and the vocabulary that the
// server publishes, "" if no tool has facts.
func explainFacts(tools []tool) string {
	for _, t := range tools {
		for _, p := range t.parameters {
			if p.name == "facts" && len(p.members) > 0 {
				return readInstruction("facts") + "\n" + p.members[0].details
			}
		}
	}
	return ""
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
		members[i] = fmt.Sprintf("%q: %s", p.name, p.placeholder())
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
	switch {
	case p.members != nil:
		members := make([]string, len(p.members))
		for i, m := range p.members {
			members[i] = fmt.Sprintf("%q: %q", m.name, "<"+m.description+">")
		}
		return "[{" + strings.Join(members, ", ") + "}]"
	case p.enum != nil && p.kind == "array":
		return "[" + strconv.Quote(strings.Join(p.enum, " | ")) + "]"
	case p.enum != nil:
		return strconv.Quote(strings.Join(p.enum, " | "))
	}
	return strconv.Quote("<" + p.description + ">")
}
