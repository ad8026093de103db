package ors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// Calls are the calls of a session: those that run, and the last one that has ended. A client that
// loses the stream of a call asks for its answer by its id, and the call is played once. The zero
// value has none.
type Calls struct {
	mu   sync.Mutex
	list []*call
}

// call is one call of a tool.
type call struct {
	id   string
	done chan struct{}
	// output and fault are set before done is closed. One of them is "".
	output, fault string
}

// maxCalls bounds the calls of a session that run or wait at a time.
const maxCalls = 4

// beginCall adds a call and forgets the older ones that have ended. It returns nil if there are too
// many others.
func (c *Calls) beginCall() *call {
	begun := &call{id: uuid.NewString(), done: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.list, (*call).hasEnded)
	if len(c.list) >= maxCalls {
		return nil
	}
	c.list = append(c.list, begun)
	return begun
}

func (c *Calls) findCall(id string) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.list, func(one *call) bool { return one.id == id })
	if at < 0 {
		return nil
	}
	return c.list[at]
}

func (c *call) hasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// request is the body of a /call.
type request struct {
	name, id  string
	arguments json.RawMessage
}

func parseCall(body []byte) (request, []episode.ErrorItem) {
	reader := protocol.OptionReader{Where: "body"}
	members, err := object.Read(body, object.Unique)
	if err != nil {
		reader.Faultf("value_error", "body", nil, "the body can't be read: %v", err)
		return request{}, reader.Items
	}
	var name, input, id jsontext.Value
	others := members.Take(map[string]*jsontext.Value{"name": &name, "input": &input, "task_id": &id})
	reader.Items = append(reader.Items, protocol.ExtraItems("call", others)...)
	called := request{name: reader.Text("name", name), id: reader.Text("task_id", id)}
	if called.name == "" && len(reader.Items) == 0 {
		reader.Faultf("missing", "name", name, "name should be the name of a tool")
	}
	given, err := object.Read(input, object.LastCounts)
	if err != nil {
		reader.Faultf("dict_type", "input", input, "input should be a JSON object: %v", err)
		return called, reader.Items
	}
	// TRL sends null for every argument that the model leaves out.
	given = slices.DeleteFunc(given, func(m object.Member) bool { return !protocol.IsGiven(m.Value) })
	called.arguments = writeObject(given)
	return called, reader.Items
}

// answerCall plays a tool and streams the answer.
func (o *Routes) answerCall(w http.ResponseWriter, r *http.Request, s Session) {
	body, ok := protocol.ReadObject(w, r, protocol.RequiredBody)
	if !ok {
		return
	}
	called, items := parseCall(body)
	if len(items) > 0 {
		protocol.WriteItems(w, items)
		return
	}
	var running *call
	if called.id == "" {
		if running = s.Calls().beginCall(); running == nil {
			w.Header().Set("Retry-After", "1")
			protocol.WriteDetail(w, http.StatusServiceUnavailable,
				fmt.Sprintf("the session has %d calls at a time already: wait for an answer", maxCalls))
			return
		}
		if !o.Host.Spawn(func() { running.playTool(context.WithoutCancel(r.Context()), s, called) }) {
			running.fault = "the server is closing: begin another session"
			close(running.done)
		}
	} else if running = s.Calls().findCall(called.id); running == nil {
		newEvents(w).sendEvent("error", "unknown task_id")
		return
	}
	running.streamAnswer(newEvents(w))
}

// playTool plays the call to its end, whether or not its client still listens.
func (c *call) playTool(ctx context.Context, s Session, called request) {
	defer close(c.done)
	c.fault = "the server failed to answer this call" // unless play returns
	var answer output
	err := s.Play(ctx, func(ctx context.Context, p *player.Player) {
		answer = playTool(ctx, p, called.name, called.arguments)
	})
	if err = errors.Join(err, answer.failure); err != nil {
		c.fault = protocol.ClipMessage(protocol.PlayError(err).Message)
		return
	}
	encoded, err := json.Marshal(answer.wire)
	if err != nil {
		c.fault = "the answer can't be encoded"
		return
	}
	c.output, c.fault = string(encoded), ""
}

// output is an answer to a call. With a failure the client ends the session.
type output struct {
	wire    any
	failure error
}

// refused is the answer to a call that was not played.
type refused struct {
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
	Reason string `json:"reason,omitempty"`
}

// played is the answer to a call that was played.
type played struct {
	OK     bool       `json:"ok"`
	Output toolOutput `json:"output"`
}

type toolOutput struct {
	Blocks   []block        `json:"blocks"`
	Metadata jsontext.Value `json:"metadata"`
	Reward   jsontext.Value `json:"reward"`
	Finished jsontext.Value `json:"finished"`
}

// playTool calls a tool. After the end of the episode every call is refused, because trainers take
// the last reward.
func playTool(ctx context.Context, p *player.Player, name string, arguments json.RawMessage) output {
	if seen := p.Observe(); errors.Is(seen.Err, episode.ErrNotReset) {
		return output{wire: refused{Error: noEpisode}}
	}
	if !p.Playing() {
		return output{wire: refused{Error: "the episode is over", Reason: "episode_finished"}}
	}
	r := p.Call(ctx, name, arguments)
	if r.Err != nil {
		return newErrorOutput(r.Err)
	}
	answer, err := parseReply(r)
	if err != nil {
		return output{failure: err}
	}
	if name == player.ObserveTool { // no step, and no reward
		answer.reward = jsontext.Value("null")
	}
	if answer.metadata == nil {
		answer.metadata = jsontext.Value("null")
	}
	return output{wire: played{OK: true, Output: toolOutput{Blocks: textBlock(string(answer.observation)),
		Metadata: answer.metadata, Reward: answer.reward, Finished: answer.done}}}
}

// newErrorOutput is the answer to a call that failed. The model may try again after its own
// mistakes and after a failure of the judge.
func newErrorOutput(err error) output {
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		return output{
			wire: refused{Error: protocol.ClipMessage("Invalid arguments: " + protocol.JoinMessages(invalid.Items)),
				Reason: "input_validation"},
		}
	}
	if player.IsUnknownTool(err) {
		return output{wire: refused{Error: protocol.ClipMessage(err.Error()), Reason: "not_found"}}
	}
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		return output{wire: refused{Error: unjudged.Error()}}
	}
	return output{failure: err}
}

// heartbeat is the time between two comments on the stream of a call that runs.
const heartbeat = 10 * time.Second

// streamAnswer sends the call's id at once, so that its client can ask again, and the answer when
// it is there. It waits even without a client, because the call's body counts for the budget of
// bodies until then.
func (c *call) streamAnswer(events *events) {
	events.sendEvent("task_id", c.id)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			events.sendComment()
		case <-c.done:
			if c.fault != "" {
				events.sendEvent("error", c.fault)
				return
			}
			for _, chunk := range splitChunks(c.output) {
				events.sendEvent("chunk", chunk)
			}
			events.sendEvent("end", "")
			return
		}
	}
}

// chunkSize bounds an event's data in bytes: clients read an event line by line and bound a line.
const chunkSize = 32 << 10

// splitChunks cuts a text. None begins within a character or with a space, which clients drop.
func splitChunks(text string) []string {
	var cut []string
	for len(text) > chunkSize {
		at := chunkSize
		for r, _ := utf8.DecodeRuneInString(text[at:]); at > 1 && (!utf8.RuneStart(text[at]) || unicode.IsSpace(r)); {
			at--
			r, _ = utf8.DecodeRuneInString(text[at:])
		}
		cut, text = append(cut, text[:at]), text[at:]
	}
	return append(cut, text)
}

// events is a stream of server-sent events.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func newEvents(w http.ResponseWriter) *events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	e := &events{w: w, control: http.NewResponseController(w)}
	_ = e.control.SetWriteDeadline(time.Time{}) // a judge may take long
	return e
}

// sendEvent sends an event. A client that has gone asks again.
func (e *events) sendEvent(name, data string) {
	//nolint:gosec // browsers don't render events
	fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", name, strings.ReplaceAll(data, "\n", " "))
	_ = e.control.Flush()
}

// sendComment keeps the connection from being taken for dead.
func (e *events) sendComment() {
	fmt.Fprint(e.w, ": ping\n\n")
	_ = e.control.Flush()
}
