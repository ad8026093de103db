package policy

import (
	"embed"
	"fmt"
	"strings"
)

// The instructions of the models, a file for each environment and each task, and some for all. They
// say what the job is and how it is judged, as the documentation does, and nothing of any scenario.
//
//go:embed prompt/*.txt
var promptFiles embed.FS

// instruction is a file of the instructions, "" for one that there isn't: a task that is new needs
// none of its own.
func instruction(name string) string {
	text, err := promptFiles.ReadFile("prompt/" + name + ".txt")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// systemPrompt is what a model is told before an episode. Its owner's instructions replace what
// csenv says of the job; how to answer is always said.
func systemPrompt(own, environment, task string, mode Mode, tools []tool) string {
	parts := []string{own}
	if own == "" {
		parts = []string{instruction(environment), instruction(task)}
	}
	parts = append(parts, instruction("data"))
	if mode == ModeTools {
		parts = append(parts, instruction("tools"))
	} else {
		parts = append(parts, instruction("json")+"\n"+describeTools(tools))
	}
	kept := parts[:0]
	for _, part := range parts {
		if part != "" {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "\n\n")
}

// describeTools lists the actions for a model without tools: an example of each, with what it does
// and what its arguments mean.
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

// example is an action with the meaning of each argument in its place.
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
