package ors

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/documents"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// defaultSeed is the seed of a task that names none. In ORS a task is one instance, so that the
// rollouts of a group play the same one.
const defaultSeed = "0"

// createEpisode begins the session's episode.
func (o *Routes) createEpisode(w http.ResponseWriter, r *http.Request, s Session) {
	body, ok := protocol.ReadObject(w, r, protocol.RequiredBody)
	if !ok {
		return
	}
	options, items := o.resetOptions(r, body)
	if len(items) > 0 {
		protocol.WriteItems(w, items)
		return
	}
	var begun player.Reply
	err := s.Play(r.Context(), func(_ context.Context, p *player.Player) {
		begun = p.Reset(options, protocol.LenientSeed, "task_spec")
	})
	if err = errors.Join(err, begun.Err); err != nil {
		writeRefusal(w, err)
		return
	}
	protocol.WriteJSON(w, http.StatusOK, map[string]string{"sid": s.ID()})
}

// writeRefusal answers an operation that failed.
func writeRefusal(w http.ResponseWriter, err error) {
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		protocol.WriteItems(w, invalid.Items)
		return
	}
	status := http.StatusInternalServerError
	wire, _ := errors.AsType[protocol.Error](err)
	switch {
	case wire.Code == protocol.CodeSession:
		status = http.StatusGone
	case wire.Code == protocol.CodeCapacity, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusServiceUnavailable
	}
	protocol.WriteDetail(w, status, protocol.ClipMessage(protocol.PlayError(err).Message))
}

// resetOptions makes the options of a reset of the body of a /create. A task_spec has options,
// for example an entry of the Task API; otherwise a split and an index name an entry.
func (o *Routes) resetOptions(r *http.Request, body []byte) ([]byte, []episode.ErrorItem) {
	reader := protocol.OptionReader{Where: "body"}
	members, err := object.Read(body, object.Unique)
	if err != nil {
		reader.Faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return nil, reader.Items
	}
	var name, spec, split, index, toolset jsontext.Value
	others := members.Take(map[string]*jsontext.Value{"env_name": &name, "task_spec": &spec, "split": &split,
		"index": &index, "toolset_name": &toolset})
	reader.Items = append(reader.Items, protocol.ExtraItems("create", others)...)
	if protocol.IsGiven(toolset) {
		reader.Faultf("value_error", "toolset_name", toolset, "this environment has tools of its own and no toolsets: "+
			"leave toolset_name out")
	}
	task := o.taskOf(&reader, r, name)
	options := object.Object{}
	switch {
	case protocol.IsGiven(spec) == (protocol.IsGiven(split) && protocol.IsGiven(index)):
		reader.Faultf("value_error", "body", nil, "send either task_spec or both split and index")
	case protocol.IsGiven(spec):
		if options, err = object.Read(spec, object.Unique); err != nil {
			reader.Faultf("dict_type", "task_spec", spec, "task_spec should be a JSON object: %v", err)
		}
	default:
		options = object.Object{{Name: "split", Value: split}, {Name: "index", Value: index}}
	}
	if len(reader.Items) > 0 {
		return nil, reader.Items
	}
	return completeOptions(options, task), nil
}

// taskOf returns the task that the body's or the deployment's name means, "" for the environment
// with all its tasks.
func (o *Routes) taskOf(reader *protocol.OptionReader, r *http.Request, given jsontext.Value) string {
	name := reader.Text("env_name", given)
	canonical, known := o.Tasks.Named(name)
	if name == "" {
		name = documents.DeploymentName(r)
		canonical, known = o.Tasks.Named(name)
	}
	if !known {
		reader.Faultf("value_error", "env_name", given, "%s", o.Tasks.Unknown(name))
	}
	if !o.Tasks.IsTask(canonical) {
		return ""
	}
	return canonical
}

// completeOptions writes options with a task and a seed unless they have them.
func completeOptions(options object.Object, task string) []byte {
	if !protocol.IsGiven(options.Get("task")) && task != "" {
		quoted, _ := jsontext.AppendQuote(nil, task) // names of tasks are valid UTF-8
		options = append(removeMember(options, "task"), object.Member{Name: "task", Value: quoted})
	}
	if !protocol.IsGiven(options.Get("seed")) {
		options = append(removeMember(options, "seed"), object.Member{Name: "seed", Value: jsontext.Value(defaultSeed)})
	}
	return writeObject(options)
}

func removeMember(members object.Object, name string) object.Object {
	return slices.DeleteFunc(members, func(m object.Member) bool { return m.Name == name })
}

// writeObject writes an object that was read.
func writeObject(members object.Object) []byte {
	out := []byte("{")
	for i, m := range members {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, m.Name) // read from valid JSON
		out = append(append(out, ':'), m.Value...)
	}
	return append(out, '}')
}

// block is a part of a text for the model.
type block struct {
	Text   string  `json:"text"`
	Detail *string `json:"detail"`
	Type   string  `json:"type"`
}

func textBlock(text string) []block { return []block{{Text: text, Type: "text"}} }

// noEpisode is the answer to a client that skips /create.
const noEpisode = "no episode yet: POST /create first"

func (o *Routes) promptOf(w http.ResponseWriter, r *http.Request, s Session) (text string, ok bool) {
	var seen player.Reply
	err := s.Play(r.Context(), func(_ context.Context, p *player.Player) { seen = p.Observe() })
	if errors.Is(seen.Err, episode.ErrNotReset) {
		protocol.WriteDetail(w, http.StatusBadRequest, noEpisode)
		return "", false
	}
	var observation result
	if err = errors.Join(err, seen.Err); err == nil {
		observation, err = parseReply(seen)
	}
	if err != nil {
		writeRefusal(w, err)
		return "", false
	}
	text = o.Kind.Description() + " Use the tools. The observation of the task:\n" + string(observation.observation)
	return text, true
}

// result is an answer to a reset or a step.
type result struct{ observation, reward, done, metadata jsontext.Value }

func parseReply(r player.Reply) (result, error) {
	text, err := r.Structured()
	if err != nil {
		return result{}, err
	}
	members, err := object.Read(text, object.Unique)
	return result{members.Get("observation"), members.Get("reward"), members.Get("done"), members.Get("metadata")}, err
}
