// Package player plays episodes for sessions: it reads the options of a reset, calls the
// environment, counts steps and episodes, and records the episodes of runs in their ledgers.
package player

import (
	"bytes"
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/time/rate"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/documents"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// Factory makes the players of a server's sessions.
type Factory struct {
	Config
	Tools     *Tools
	scenarios map[string]score.Scenario
	// unjudged bounds the warnings about the judge, which fails for all sessions at once.
	unjudged *rate.Sometimes
	seal     cipher.AEAD // of checkpoints
	scores   cipher.AEAD // of receipts and ledgers whose scores are withheld
}

// Config has the dependencies that players share.
type Config struct {
	Kind episode.Kind
	// RewardMode is the default of resets.
	RewardMode episode.RewardMode
	Tasks      *documents.Tasks
	Ledgers    *ledger.Ledgers
	Rollouts   *ledger.Rollouts
	// Key signs receipts, and checkpoints are sealed with a key that follows from it.
	Key ed25519.PrivateKey
	// Secrets are derived from the key, nil for a key that no operator shares.
	Secrets *poolkey.Secrets
	// RunsOnly refuses resets that are not of an evaluation run.
	RunsOnly bool
	// WithholdScores keeps the scores and verdicts of planned runs' episodes from their clients.
	WithholdScores bool
	// Unjudged is called after an episode that could not be graded.
	Unjudged func()
	Metrics  Metrics
	Log      *slog.Logger
}

// Metrics counts steps and episodes.
type Metrics interface {
	// Stepped counts a step. The error is nil if it was played.
	Stepped(took time.Duration, err error)
	// Ended counts an episode. The score is in micro-points.
	Ended(task string, outcome score.Outcome, micro int64)
}

// judgeWarnings is the least time between two warnings about the judge, after the first few.
const judgeWarnings = 10 * time.Second

// NewFactory makes a factory. It fails if the names of tools are reserved or not unique.
func NewFactory(cfg Config) (*Factory, error) {
	tools, err := newTools(cfg.Kind)
	if err != nil {
		return nil, err
	}
	f := &Factory{Config: cfg, Tools: tools, scenarios: map[string]score.Scenario{},
		unjudged: &rate.Sometimes{First: 10, Interval: judgeWarnings}}
	if f.seal, err = poolkey.NewCipher(cfg.Key, "checkpoints"); err != nil {
		return nil, err
	}
	if f.scores, err = poolkey.NewScoreCipher(cfg.Key); err != nil {
		return nil, err
	}
	for _, task := range cfg.Kind.Tasks() {
		for _, scenario := range task.Scenarios {
			f.scenarios[scenario.ID] = scenario
		}
	}
	return f, nil
}

// ErrFactory means that no environment could be made.
var ErrFactory = errors.New("the environment could not be made")

// Player plays and records the episodes of one session. It is not safe for concurrent use.
type Player struct {
	*Factory
	env episode.Environment
	// playing is true between a reset and the end of its episode.
	playing bool
	// last answered the last reset or step. Its observation is nil before the first reset.
	last episode.Result
	task string // of an episode that ends without a result
	// penalty is what the current episode's invalid actions cost in milli-points, nil for nothing.
	penalty *int64
	// answered are the episode's steps that were answered with an observation.
	answered int
	// planned, tag and recorder belong to the current episode; tag and recorder are nil without
	// a run.
	planned  score.PlannedEpisode
	tag      *protocol.RunTag
	recorder ledger.Recorder
	// current publishes the tag to other goroutines, nil for none.
	current *atomic.Pointer[protocol.RunTag]
	// log is enough to begin the episode again elsewhere.
	log actionLog
	// forked means that another session has played the beginning of this episode, or may play it.
	forked bool
}

// New makes a player, which stores the tag of its episode in current unless that is nil. The error
// is ErrFactory.
func (f *Factory) New(current *atomic.Pointer[protocol.RunTag]) (p *Player, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			f.Log.Error("Making an environment panicked", "cause", fmt.Sprint(cause))
			err = ErrFactory
		}
	}()
	env := f.Kind.New()
	if env == nil {
		return nil, ErrFactory
	}
	return &Player{Factory: f, env: env, current: current}, nil
}

// Playing reports whether an episode has begun and not ended.
func (p *Player) Playing() bool { return p.playing }

// Reply is the answer to a reset or a step, not yet encoded.
type Reply struct {
	kind   episode.Kind
	result episode.Result
	Err    error
}

// Write appends the message.
func (r Reply) Write(out *bytes.Buffer) {
	err := r.Err
	if err == nil {
		out.WriteString(`{"type":"observation","data":`)
		if err = r.WriteResult(out); err == nil {
			out.WriteByte('}')
			return
		}
		out.Reset()
	}
	protocol.WriteError(out, protocol.PlayError(err))
}

// WriteResult appends {"observation", "reward", "done"} and, at the end of an episode, "metadata".
func (r Reply) WriteResult(out *bytes.Buffer) error {
	return protocol.WriteResult(out, r.kind, r.result)
}

// readOptions reads the options of a reset, applies defaults, and resolves a split and an index.
func (f *Factory) readOptions(data []byte, rule protocol.SeedRule, where string) (protocol.ResetOptions,
	[]episode.ErrorItem) {
	o, items := protocol.ParseReset(data, rule, where)
	if len(items) > 0 {
		return o, items
	}
	o.RewardMode = cmp.Or(o.RewardMode, f.RewardMode)
	r := protocol.OptionReader{Where: where}
	f.Tasks.Resolve(&o, &r)
	return o, r.Items
}

// recorderOf returns the recorder of an episode with a tag. Its error is meant for the client.
func (f *Factory) recorderOf(tag protocol.RunTag, o episode.Options) (ledger.Recorder, error) {
	if tag.Rollout {
		return f.Rollouts.Open(tag.Run)
	}
	return f.Ledgers.Open(tag, score.PlannedEpisode{Index: tag.Episode, Task: o.Task, Scenario: o.Scenario,
		Seed: o.Seed, Pressure: o.Pressure})
}

// Reset begins an episode. It abandons a running one only if the options are valid. Where begins
// the location of faults in them.
func (p *Player) Reset(data []byte, rule protocol.SeedRule, where string) Reply {
	o, items := p.readOptions(data, rule, where)
	if len(items) > 0 {
		return p.failReply(&episode.ActionError{Items: items})
	}
	if p.RunsOnly && (o.Tag == nil || o.Tag.Rollout) {
		return p.failReply(notOfARun(where))
	}
	var recorder ledger.Recorder
	if o.Tag != nil {
		if !o.Tag.Rollout {
			o.RewardMode = episode.Terminal // dense rewards would be hints
			if o.Penalty != nil {
				return p.failReply(noPenalty(where))
			}
		}
		var err error
		if recorder, err = p.recorderOf(*o.Tag, o.Options); err != nil {
			return p.failReply(tagError(err, where))
		}
	}
	o.IDKey = p.idKey(o.Tag)
	result, err := p.env.Reset(o.Options)
	if err != nil {
		err = optionError(err, o, where)
		p.logFailure("A reset failed", err)
		return p.failReply(err)
	}
	result.Ignored = o.Ignored
	p.playing, p.task, p.last, p.penalty, p.answered = true, o.Task, result, o.Penalty, 0
	p.forked, p.log = false, actionLog{options: o.Options}
	p.setTag(o.Tag, recorder)
	if recorder != nil {
		p.planned = score.PlannedEpisode{Index: o.Tag.Episode, Seed: o.Seed, Pressure: o.Pressure}
		recorder.Begin()
	}
	return Reply{kind: p.Kind, result: result}
}

// idKey keys the ids that the agent sees by the run of a shard, so that episodes outside the run,
// which anyone may play, don't reveal the ids of its episodes.
func (f *Factory) idKey(tag *protocol.RunTag) string {
	if tag == nil || tag.Rollout {
		return f.Secrets.IDKey("")
	}
	return f.Secrets.IDKey(tag.Credential)
}

// notOfARun is the answer to a reset on a server that is played by runs only.
func notOfARun(where string) error {
	const refusal = "only the runners of EvaluationRuns play here (access.play of the pool is RunsOnly): create an " +
		"EvaluationRun, or use a pool with access.play Open"
	item := protocol.NewErrorItem("value_error", nil, refusal, where, "run")
	return &episode.ActionError{Items: []episode.ErrorItem{item}}
}

// noPenalty is the answer to a reset of a planned run that asks for a penalty.
func noPenalty(where string) error {
	item := protocol.NewErrorItem("value_error", nil, "the episodes of an evaluation run have no "+
		protocol.PenaltyOption+": leave it out", where, protocol.PenaltyOption)
	return &episode.ActionError{Items: []episode.ErrorItem{item}}
}

// tagError is the answer to a reset whose episode can't be recorded. A runner takes its shard to
// another server if this one is full.
func tagError(err error, where string) error {
	for _, refusal := range []struct {
		err  error
		code string
	}{{ledger.ErrFull, protocol.CodeCapacity}, {ledger.ErrEnded, protocol.CodeEnded},
		{ledger.ErrNoPlan, protocol.CodeNoPlan}} {
		if errors.Is(err, refusal.err) {
			return protocol.Error{Code: refusal.code, Message: err.Error()}
		}
	}
	item := protocol.NewErrorItem("value_error", nil, err.Error(), where, "run")
	return &episode.ActionError{Items: []episode.ErrorItem{item}}
}

// setTag sets the run that the current episode belongs to, nil for none.
func (p *Player) setTag(tag *protocol.RunTag, recorder ledger.Recorder) {
	p.tag, p.recorder = tag, recorder
	if p.current != nil {
		p.current.Store(tag)
	}
}

func (p *Player) failReply(err error) Reply { return Reply{kind: p.Kind, Err: err} }

// optionError names the option whose task or scenario is unknown.
func optionError(err error, o protocol.ResetOptions, where string) error {
	name, value := "", ""
	switch {
	case errors.Is(err, episode.ErrUnknownTask):
		name, value = "task", o.Task
	case errors.Is(err, episode.ErrUnknownScenario):
		name, value = "scenario", o.Scenario
	default:
		return err
	}
	item := protocol.NewErrorItem("value_error", nil, o.Advise(err.Error()), where, name)
	item.Input, _ = jsontext.AppendQuote(nil, value) // an option is valid UTF-8
	return &episode.ActionError{Items: []episode.ErrorItem{item}}
}

// ResetStateless begins the episode of one request, which belongs to no run.
func (p *Player) ResetStateless(body []byte) Reply {
	o, items := p.readOptions(body, protocol.StrictSeed, "body")
	if len(items) > 0 {
		return p.failReply(&episode.ActionError{Items: items})
	}
	if p.RunsOnly {
		return p.failReply(notOfARun("body"))
	}
	o.IDKey = p.idKey(nil)
	result, err := p.env.Reset(o.Options)
	if err != nil {
		return p.failReply(optionError(err, o, "body"))
	}
	p.last, p.penalty, p.answered = result, o.Penalty, 0
	return Reply{kind: p.Kind, result: result}
}

// playStep plays one action.
func (p *Player) playStep(ctx context.Context, action []byte) Reply {
	began := time.Now()
	result, err := p.env.Step(ctx, action)
	p.Metrics.Stepped(time.Since(began), err)
	if err != nil {
		return p.answerUnplayed(ctx, action, err)
	}
	p.logAction(action)
	p.countStep()
	if result.Final != nil && p.finishEpisode(result.Final) {
		// The last observation may have the score in words, so the client gets the one before.
		result.Observation, result.Reward = p.last.Observation, 0
	}
	p.last = result
	return Reply{kind: p.Kind, result: result}
}

// answerUnplayed answers an action that was not played.
func (p *Player) answerUnplayed(ctx context.Context, action []byte, err error) Reply {
	if invalid, ok := errors.AsType[*episode.ActionError](err); ok {
		p.logAction(action)
		if p.penalty != nil {
			return p.penaliseAction(invalid)
		}
	}
	if ctx.Err() == nil {
		p.logFailure("A step failed", err)
	}
	return p.failReply(err)
}

// countStep counts a step that is answered with an observation.
func (p *Player) countStep() {
	if p.playing {
		p.answered++
	}
}

// logFailure logs an error that is not the client's fault.
func (p *Player) logFailure(what string, err error) {
	if unjudged, ok := errors.AsType[*episode.JudgeError](err); ok {
		p.unjudged.Do(func() {
			p.Log.Warn("The judge failed", "task", p.task, "cause", unjudged.Cause, "detail", unjudged.Detail())
		})
		p.Log.Debug("The judge failed", "task", p.task, "cause", unjudged.Cause, "error", unjudged.Err)
		return
	}
	if undrawn, ok := errors.AsType[*episode.InstanceError](err); ok {
		err = fmt.Errorf("%w (%w)", undrawn, undrawn.Err)
	}
	if !IsRefusal(err) {
		p.Log.Error(what, "task", p.task, "error", err)
	}
}

// finishEpisode records the end of an episode. It reports whether the score is withheld from the
// client: the score of an episode that was graded before, and with WithholdScores a planned run's
// scores.
func (p *Player) finishEpisode(f *episode.Final) (withheld bool) {
	p.playing, p.log = false, actionLog{}
	f.Forked = p.forked
	p.Metrics.Ended(f.Task, f.Outcome, f.Score)
	if f.Outcome == score.Errored {
		p.Log.Warn("An episode errored", "task", f.Task, "scenario", f.Scenario, "cause", f.Cause, "detail", f.Detail)
		p.Unjudged()
	}
	if !p.ofPlan() {
		// An agent or its trainer plays, and not the runner of a run.
		f.Detail = ""
		var err error
		if f.Verdicts, err = episode.ServeVerdicts(f.Verdicts); err != nil {
			p.Log.Error("A verdict can't be served", "task", f.Task, "error", err)
		}
	}
	if p.recorder == nil {
		return false
	}
	err := p.recordEnd(f)
	withheld = f.Outcome != score.Errored && p.ofPlan() && (p.WithholdScores || errors.Is(err, ledger.ErrEnded))
	if err != nil && !errors.Is(err, ledger.ErrEnded) {
		p.Log.Error("Recording an episode failed", "run", p.tag.Run, "shard", p.tag.Shard, "error", err)
	}
	if withheld {
		*f = episode.Final{Task: f.Task, Scenario: f.Scenario, Outcome: score.Withheld, Judge: f.Judge,
			Customer: f.Customer, Forked: f.Forked, Receipt: score.SealText(f.Receipt, score.ReceiptPurpose, p.scores)}
	}
	p.setTag(nil, nil)
	return withheld
}

// recordEnd counts the end of an episode, and adds its receipt.
func (p *Player) recordEnd(f *episode.Final) error {
	p.planned.Task, p.planned.Scenario = f.Task, f.Scenario
	scenario := p.scenarios[f.Scenario]
	receipt, err := p.recorder.Finish(p.planned, score.Episode{
		Outcome: f.Outcome, Score: f.Score, Wrong: f.Wrong, Dimensions: f.Dimensions,
		Category: f.Category, Difficulty: scenario.Difficulty, Language: scenario.Language,
	})
	if err == nil && receipt != nil {
		f.Receipt, err = receipt.Sign(p.Key)
	}
	return err
}

// VerifyReceipt is score.VerifyReceipt for receipts of this pool, also sealed ones.
func (f *Factory) VerifyReceipt(text string) (score.Receipt, error) {
	text, err := score.OpenText(text, score.ReceiptPurpose, f.scores)
	if err != nil {
		return score.Receipt{}, fmt.Errorf("%w: %w", score.ErrReceipt, err)
	}
	return score.VerifyReceipt(text, f.Key.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // always is one
}

// SealLedger seals the ledger of a planned run if its scores are withheld.
func (f *Factory) SealLedger(signed score.SignedLedger) score.SignedLedger {
	if f.WithholdScores {
		return signed.Seal(f.scores)
	}
	return signed
}

// Abandon ends the episode as errored after a panic, and makes a new environment.
func (p *Player) Abandon() protocol.Error {
	if p.playing {
		p.playing = false
		p.Metrics.Ended(p.task, score.Errored, 0)
		if p.recorder != nil {
			// Recording an errored episode can't fail.
			_, _ = p.recorder.Finish(p.planned, score.Episode{Outcome: score.Errored})
		}
	}
	p.setTag(nil, nil)
	p.last, p.log = episode.Result{}, actionLog{}
	fresh, err := p.New(nil)
	if err != nil {
		return protocol.Error{Code: protocol.CodeExecution,
			Message: "the environment failed and can't be replaced: connect again"}
	}
	p.env = fresh.env
	return protocol.Error{Code: protocol.CodeExecution,
		Message: "the environment failed and the episode is lost: send reset to begin another"}
}

// IsRefusal reports whether an error of a step is the client's fault.
func IsRefusal(err error) bool {
	_, invalid := errors.AsType[*episode.ActionError](err)
	return invalid || errors.Is(err, episode.ErrNotReset)
}
