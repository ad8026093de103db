package policy

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/csenv/csenv/envserver/endpoint"
)

// Dialogue writes an episode as the messages of a chat with tools, in the form in which a model
// that csenv plays gets them: instructions, the first observation, and for each action the model's
// message and the result. No message is shortened.
type Dialogue struct {
	system string
	// tools are all of the environment's, and offered those that the task allows.
	tools, offered []tool
	talk           conversation
}

// NewDialogue returns the dialogue of an episode that begins with an observation. The schema
// describes the environment's actions. If own is set, it replaces the description of the job in the
// instructions, as OpenAIConfig.SystemPrompt does.
func NewDialogue(own, environment, task string, schema, observation json.RawMessage) (*Dialogue, error) {
	known, err := toolsOf(schema)
	if err != nil {
		return nil, err
	}
	d := &Dialogue{system: systemPrompt(own, environment, task, ModeTools, known), tools: known,
		offered: allowedBy(observation, known)}
	d.talk.addObservation(Turn{Task: task, Observation: observation})
	return d, nil
}

// Add adds an action, the text that the model sent with it, and the observation after it. For a
// refused action, the reason replaces the observation.
func (d *Dialogue) Add(action json.RawMessage, said string, observation json.RawMessage, refused string) {
	turn := exchange{said: said, call: d.callOf(action)}
	switch {
	case turn.call != nil:
	case bytes.Equal(action, noAction(said)):
		turn.note = noteNoAction
	case said == "":
		turn.said = string(action)
	}
	if inText := objectIn(said); turn.call != nil && inText != nil && bytes.Equal(inText, reencodeObject(action)) {
		turn.said = "" // the text was the action
	}
	d.talk.turns = append(d.talk.turns, turn)
	d.talk.addObservation(Turn{Observation: observation, Refused: refused})
}

// callOf returns the call that gives an action, nil if there is none.
func (d *Dialogue) callOf(action json.RawMessage) *toolCall {
	var members map[string]json.RawMessage
	var name string
	if json.Unmarshal(action, &members) != nil || json.Unmarshal(members[actionType], &name) != nil {
		return nil
	}
	i := slices.IndexFunc(d.tools, func(t tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	delete(members, actionType)
	arguments, err := json.Marshal(members)
	if inner, ok := members[d.tools[i].Object]; ok && len(members) == 1 {
		arguments = reencodeObject(inner)
	}
	if err != nil || arguments == nil {
		return nil
	}
	// The call must give the same action.
	if again, err := d.tools[i].Action(arguments); err != nil ||
		!bytes.Equal(reencodeObject(again), reencodeObject(action)) {
		return nil
	}
	return &toolCall{id: callID("", len(d.talk.turns)), name: name, arguments: string(arguments)}
}

// Messages returns the instructions, the first observation, and two messages for each action: the
// model's and the result.
func (d *Dialogue) Messages() []endpoint.ChatMessage {
	return d.talk.encodeMessages(d.system, ModeTools)
}

// Tools returns the tools that the model may call.
func (d *Dialogue) Tools() []endpoint.ChatTool { return chatTools(d.offered, false) }
