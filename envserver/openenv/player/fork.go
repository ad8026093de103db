package player

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// maxLog bounds the actions of an episode that can be saved, in bytes, so that a session that sends
// large invalid actions doesn't keep them.
const maxLog = 64 << 10

// actionLog has the options and the actions of an episode. Forks share its beginning.
type actionLog struct {
	options episode.Options
	actions [][]byte
	size    int
}

func (l *actionLog) addAction(action []byte) {
	l.size += len(action)
	if l.size > maxLog {
		l.actions = nil
		return
	}
	l.actions = append(l.actions, bytes.Clone(action))
}

// logAction records an action for forks, unless the episode can't be forked.
func (p *Player) logAction(action []byte) {
	if !p.ofPlan() {
		p.log.addAction(action)
	}
}

// ofPlan reports whether the episode is scored for a planned run.
func (p *Player) ofPlan() bool { return p.tag != nil && !p.tag.Rollout }

// forkError is the reason why an episode can't be forked, saved or restored.
type forkError struct {
	reason  protocol.ForkRefusal
	message string
}

func (e forkError) Error() string { return e.message }

// ForkRefusal returns why an episode can't be forked, saved or restored because of what the client
// asks for, "" for other errors.
func ForkRefusal(err error) protocol.ForkRefusal {
	refused, _ := errors.AsType[forkError](err)
	return refused.reason
}

// CheckFork returns the reason why the current episode can't be forked or saved, nil for none. A
// planned run's episodes can't be: an agent could try actions before it chooses one.
func (p *Player) CheckFork() error {
	switch {
	case !p.playing:
		return forkError{protocol.ForkNoEpisode, "no episode is being played: send reset first"}
	case p.ofPlan():
		return forkError{protocol.ForkPlanned, "this episode is scored for a planned run, which allows one attempt: " +
			"fork episodes outside of it, or of a run of type External"}
	}
	return nil
}

// Fork returns a player with the same episode, which plays on independently. It stores its tag in
// current. The episodes of both are marked as forked. CheckFork must have returned nil.
func (p *Player) Fork(current *atomic.Pointer[protocol.RunTag]) *Player {
	p.markForked()
	p.log.actions = slices.Clip(p.log.actions) // neither appends to what the other has
	fork := *p
	fork.env, fork.current = p.env.Fork(), current
	fork.setTag(p.tag, p.recorder)
	return &fork
}

// markForked keeps the episode out of the figures of its run.
func (p *Player) markForked() {
	p.forked = true
	if r, ok := p.recorder.(ledger.SegmentRecorder); ok {
		p.recorder = r.Forked()
	}
}

// checkpoint is the content of a sealed checkpoint. Version is checkpointVersion.
type checkpoint struct {
	Version        int               `json:"version"`
	Environment    string            `json:"environment"`
	ScenarioDigest string            `json:"scenario_digest"`
	GraderVersion  string            `json:"grader_version"`
	Judge          string            `json:"judge"`
	Options        episode.Options   `json:"options"`
	Penalty        *int64            `json:"penalty,omitempty"`
	Answered       int               `json:"answered"`
	Tag            *protocol.RunTag  `json:"tag,omitempty"`
	Actions        [][]byte          `json:"actions"`
	Verdicts       []json.RawMessage `json:"verdicts,omitempty"`
	// Customer are the exchanges with a customer that is a model.
	Customer []episode.Exchange `json:"customer,omitempty"`
	// Single is true for an episode that continues nowhere else.
	Single bool `json:"single,omitempty"`
}

const checkpointVersion = 1

func (f *Factory) newCheckpoint() checkpoint {
	return checkpoint{Version: checkpointVersion, Environment: f.Kind.Name(), ScenarioDigest: f.Kind.ScenarioDigest(),
		GraderVersion: f.Kind.GraderVersion(), Judge: f.Kind.Judge()}
}

// Checkpoint returns the episode as text that Restore of any server of the pool takes. It is
// encrypted, because it names the scenario and has verdicts. The episode is marked as forked.
func (p *Player) Checkpoint() (string, error) {
	text, err := p.saveCheckpoint(false)
	if err == nil {
		p.markForked()
	}
	return text, err
}

// Move is Checkpoint for an episode that ends here. It isn't marked as forked. The text must not
// reach a client, which could restore it twice.
func (p *Player) Move() (string, error) { return p.saveCheckpoint(!p.forked) }

// saveCheckpoint returns the episode as a checkpoint.
func (p *Player) saveCheckpoint(single bool) (string, error) {
	if err := p.CheckFork(); err != nil {
		return "", err
	}
	if p.log.size > maxLog {
		return "", forkError{protocol.ForkTooLong, fmt.Sprintf("the actions of this episode have more than %d bytes, "+
			"the maximum of a checkpoint", maxLog)}
	}
	c := p.newCheckpoint()
	c.Options, c.Tag, c.Actions = p.log.options, p.tag, p.log.actions
	c.Penalty, c.Answered, c.Single = p.penalty, p.answered, single
	if judged, ok := p.env.(episode.Judged); ok {
		var err error
		if c.Verdicts, err = judged.Verdicts(); err != nil {
			return "", fmt.Errorf("saving the episode: %w", err)
		}
	}
	if talking, ok := p.env.(episode.Conversing); ok {
		c.Customer = talking.Exchanges()
	}
	text, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("saving the episode: %w", err)
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", fmt.Errorf("saving the episode: %w", err)
	}
	sealed := p.seal.Seal(nil, nil, packed.Bytes(), nil) //nolint:gosec // the cipher draws the nonce itself
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// Restore continues the episode of a checkpoint in a player without one, and returns its last
// observation.
func (p *Player) Restore(ctx context.Context, text string) Reply {
	c, err := p.readCheckpoint(text)
	if err != nil {
		return p.failReply(err)
	}
	var recorder ledger.Recorder
	switch {
	case p.RunsOnly:
		return p.failReply(notOfARun("params"))
	case c.Tag != nil:
		if recorder, err = p.recorderOf(*c.Tag, c.Options); err != nil {
			return p.failReply(tagError(err, "params"))
		}
	}
	if p.last, err = p.replayActions(ctx, c); err != nil {
		p.logFailure("Restoring a checkpoint failed", err)
		return p.failReply(err)
	}
	p.playing, p.task, p.penalty, p.answered = true, c.Options.Task, c.Penalty, c.Answered
	p.log = actionLog{options: c.Options}
	for _, action := range c.Actions {
		p.log.addAction(action)
	}
	p.setTag(c.Tag, recorder)
	if !c.Single {
		p.markForked()
	}
	if c.Tag != nil {
		p.planned.Seed, p.planned.Pressure = c.Options.Seed, c.Options.Pressure
	}
	return Reply{kind: p.Kind, result: p.last}
}

// readCheckpoint reads a checkpoint of this pool and of what it serves now.
func (p *Player) readCheckpoint(text string) (c checkpoint, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, forkError{protocol.ForkUnreadable, "the checkpoint is not what a server wrote: send it unchanged"}
	}
	packed, err := p.seal.Open(nil, nil, sealed, nil)
	if err != nil {
		return c, forkError{protocol.ForkUnreadable, "the checkpoint was changed, or another pool wrote it"}
	}
	unpacked, err := io.ReadAll(flate.NewReader(bytes.NewReader(packed)))
	if err == nil {
		err = json.Unmarshal(unpacked, &c)
	}
	if err != nil {
		return c, fmt.Errorf("reading the checkpoint: %w", err)
	}
	want := p.newCheckpoint()
	for _, part := range []struct{ name, got, want string }{
		{"version", fmt.Sprint(c.Version), fmt.Sprint(want.Version)}, {"environment", c.Environment, want.Environment},
		{"scenario digest", c.ScenarioDigest, want.ScenarioDigest},
		{"grader version", c.GraderVersion, want.GraderVersion}, {"judge", c.Judge, want.Judge},
	} {
		if part.got != part.want {
			return c, forkError{protocol.ForkOtherVersion, fmt.Sprintf("the checkpoint has the %s %s, this server has "+
				"%s: restore it at a server like the one that wrote it", part.name, part.got, part.want)}
		}
	}
	return c, nil
}

// replayActions plays the actions of a checkpoint and returns the last result.
func (p *Player) replayActions(ctx context.Context, c checkpoint) (episode.Result, error) {
	result, err := p.env.Reset(c.Options)
	if err != nil {
		return result, err
	}
	if judged, ok := p.env.(episode.Judged); ok {
		if err := judged.Recall(c.Verdicts); err != nil {
			return result, err
		}
	}
	if talking, ok := p.env.(episode.Conversing); ok {
		talking.Recall(c.Customer)
	}
	for _, action := range c.Actions {
		next, err := p.env.Step(ctx, action)
		if _, refused := errors.AsType[*episode.ActionError](err); refused {
			continue
		}
		if err != nil {
			return result, err
		}
		result = next
		runtime.Gosched() // as after a message, because each fork is like another one
	}
	return result, nil
}
