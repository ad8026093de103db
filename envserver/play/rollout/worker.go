package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/tracing"
)

// The codes of a server's errors that matter here.
const (
	codeCapacity   = "CAPACITY_REACHED"
	codeFactory    = "FACTORY_ERROR"
	codeSession    = "SESSION_ERROR"
	codeValidation = "VALIDATION_ERROR"
)

// errLedgerLost means that the shard's server has restarted, or that another runner has the shard.
var errLedgerLost = errors.New("the server no longer plays the shard for this runner: play the shard again")

// maxActions bounds an episode that never ends. It is far above any environment's own limit.
const maxActions = 10_000

// failure is an attempt's error with its class.
type failure struct {
	class string
	// after is the wait that the agent's endpoint requests.
	after time.Duration
	err   error
}

func (f *failure) Error() string { return f.class + ": " + f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// classifyError names the class of a client's error.
func classifyError(err error) string {
	var refused *client.ServerError
	var status *client.StatusError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return score.ClassTimeout
	case errors.As(err, &status) && status.Status == http.StatusServiceUnavailable:
		return score.ClassCapacity
	case !errors.As(err, &refused):
		return score.ClassUnreachable
	case refused.Cause != "":
		return judgeClass(refused.Cause)
	case refused.Code == codeCapacity:
		return score.ClassCapacity
	default:
		return score.ClassEnvironment
	}
}

// judgeClass is the class of a failure to judge, as the server names it, if a summary accepts that.
func judgeClass(cause string) string {
	if cause == "" || len(cause) > score.MaxClassName {
		return score.ClassJudgeFailed
	}
	return cause
}

// worker plays jobs in its own session. Its client is nil while it has none.
type worker struct {
	shard   *shard
	client  *client.Client
	counted score.Tokens  // of the agent of the present attempt
	asked   time.Duration // how long its last action took
}

// playJobs plays jobs until there are none. Its error ends the whole shard.
func (w *worker) playJobs(ctx context.Context) error {
	defer w.closeSession()
	for ctx.Err() == nil {
		if err := w.openSession(ctx); err != nil {
			w.shard.workerLost(err)
			return nil
		}
		j, ok := w.shard.takeJob(ctx)
		if !ok {
			return nil
		}
		if err := w.playJob(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// takeJob returns the next job. It waits while jobs of other workers may come back, and reports
// false when there is nothing left to do.
func (s *shard) takeJob(ctx context.Context) (job, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 && s.ended < s.planned && ctx.Err() == nil && !s.isSpent() {
		s.wake.Wait()
	}
	if len(s.queue) == 0 || ctx.Err() != nil || s.isSpent() {
		return job{}, false
	}
	next := s.queue[0]
	s.queue = s.queue[1:]
	return next, true
}

// workerLost notes why a worker gets no session. It wakes no other worker: those that wait have a
// session.
func (s *shard) workerLost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = err
	s.Log.Warn("A worker has no session and stops", "shard", s.Shard, "pod", s.pod, "sessions", s.sessions, "error",
		err)
}

// openSession gets a session from the shard's pod, if the worker has none.
func (w *worker) openSession(ctx context.Context) error {
	var err error
	for attempt := 0; w.client == nil; attempt++ {
		if w.client, err = w.shard.dialPod(ctx, w.shard.pod); err == nil {
			return nil
		}
		w.client = nil
		if ctx.Err() != nil || attempt+1 >= dialAttempts && !w.shard.mustWait(err) {
			return err
		}
		if slept := w.shard.Clock.backOff(ctx, attempt); slept != nil {
			return errors.Join(err, slept)
		}
	}
	return nil
}

// mustWait reports whether a worker that got no session must go on trying, because the server is
// full and no other worker is left. Otherwise it counts the worker as lost.
func (s *shard) mustWait(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions == 1 && classifyError(err) == score.ClassCapacity {
		return true
	}
	s.sessions--
	return false
}

func (w *worker) closeSession() {
	if w.client != nil {
		// The session is over either way: its server ends idle sessions.
		_ = w.client.Close()
		w.client = nil
	}
}

// playJob makes one attempt at the job. If that fails, the job returns to the queue until its
// attempts are used up. Only an error that another attempt can't fix is returned.
func (w *worker) playJob(ctx context.Context, j job) error {
	s := w.shard
	j.attempts++
	began := s.Clock.Now()
	var p played
	traced, span := s.startEpisode(ctx, j)
	err := w.playEpisode(traced, j, &p)
	j.tokens.Add(p.tokens)
	s.endEpisode(span, p.end, err)
	took := s.Clock.Now().Sub(began)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		s.noteAnswers(j, p)
		s.recordEpisode(j, p, "", took)
		s.endJob(j, "", took)
		return nil
	}
	if errors.Is(err, errSpent) {
		s.abandonJob(j)
		w.closeSession()
		return nil
	}
	failed, ok := errors.AsType[*failure](err)
	if !ok {
		return err
	}
	s.Log.Warn("An episode failed", "episode", j.episode.Index, "task", j.episode.Task, "scenario", j.episode.Scenario,
		"attempt", j.attempts, "class", failed.class, "error", failed.err)
	if failed.class == score.ClassAgentError {
		if err := s.tryAgain(ctx); err != nil {
			return err
		}
	}
	if j.attempts >= s.EpisodeAttempts || failed.class == score.ClassAgentContext {
		s.recordEpisode(j, p, failed.class, took)
		s.endJob(j, failed.class, 0)
		return nil
	}
	if err := w.awaitRetry(ctx, j.attempts-1, failed); err != nil {
		return err
	}
	s.retryJob(j, failed.class)
	return nil
}

// tryAgain tries the agent's endpoint after a failed episode, so that a revoked key doesn't make
// all remaining episodes fail. It returns only ErrAgentRefused.
func (s *shard) tryAgain(ctx context.Context) error {
	s.agent.Lock()
	tried := s.tried
	s.agent.Unlock()
	if ctx.Err() != nil || s.Clock.Now().Sub(tried) < betweenTrials {
		return ctx.Err()
	}
	if err := s.tryNow(ctx); errors.Is(err, ErrAgentRefused) {
		return err
	}
	return ctx.Err()
}

// tryNow tries the agent's endpoint as tryOnce does, one trial at a time.
func (s *shard) tryNow(ctx context.Context) error {
	s.agent.Lock()
	defer s.agent.Unlock()
	err := s.tryOnce(ctx, s.Try)
	s.tried = s.Clock.Now()
	return err
}

// retryJob counts a further attempt at a job and returns it to the queue.
func (s *shard) retryJob(j job, class string) {
	s.mu.Lock()
	s.retried++
	s.retriedBy[class]++
	s.mu.Unlock()
	s.giveBack(j)
}

// giveBack returns a job whose attempt failed to the queue.
func (s *shard) giveBack(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, j)
	s.wake.Signal()
}

const (
	// maxAfter bounds the wait between two attempts that an endpoint may request.
	maxAfter = 10 * time.Minute
	// longWait is a wait during which the session is closed, because its server would end it as
	// idle.
	longWait = 30 * time.Second
)

// awaitRetry waits before attempt n+2, n from 0: longer for an endpoint that is full or down than
// for a connection that was lost.
func (w *worker) awaitRetry(ctx context.Context, n int, failed *failure) error {
	first, most := firstBackoff, maxBackoff
	switch failed.class {
	case score.ClassAgentRateLimited:
		first, most = 5*time.Second, time.Minute
	case score.ClassAgentUnavailable:
		first, most = 2*time.Second, 30*time.Second
	default:
	}
	wait := max(w.shard.Clock.jittered(first, most, n), min(failed.after, maxAfter))
	if wait >= longWait {
		w.closeSession()
	}
	return w.shard.Clock.Sleep(ctx, wait)
}

// resetOptions returns the reset options of an episode of a run.
type resetOptions struct {
	Seed       int64              `json:"seed"`
	EpisodeID  string             `json:"episode_id"`
	Task       string             `json:"task"`
	Scenario   string             `json:"scenario"`
	RewardMode episode.RewardMode `json:"reward_mode"`
	Pressure   bool               `json:"pressure,omitempty"`
	Run        string             `json:"run"`
	Shard      int                `json:"shard"`
	Episode    int64              `json:"episode"`
	PassScore  int64              `json:"pass_score"`
	Turn       int64              `json:"turn,omitempty"`
	Credential string             `json:"run_credential,omitempty"`
}

func (s *shard) episodeID(j job) string {
	return fmt.Sprintf("%s-%d-%d", s.Plan.Run, j.episode.Index, j.attempts)
}

func (s *shard) resetOptions(j job) resetOptions {
	return resetOptions{
		Seed: j.episode.Seed, EpisodeID: s.episodeID(j), Task: j.episode.Task, Scenario: j.episode.Scenario,
		RewardMode: episode.Terminal, Pressure: s.Plan.Pressure, Run: s.Plan.Run, Shard: s.Shard,
		Episode: j.episode.Index, PassScore: s.Plan.PassScore, Turn: s.turn, Credential: s.Credential,
	}
}

// played has the turns of an attempt.
type played struct {
	turns []record.Turn
	// end is the observation that ended the episode, zero while it runs.
	end client.Observation
	// tokens are the tokens that the agent's model used.
	tokens score.Tokens
}

// recordEpisode records the episode's last attempt. The class is "" unless the attempt failed.
func (s *shard) recordEpisode(j job, p played, class string, took time.Duration) {
	if s.Record == nil {
		return
	}
	e := record.Episode{
		Run: s.Plan.Run, Index: j.episode.Index, Environment: s.Environment, Task: j.episode.Task,
		Scenario: j.episode.Scenario, Trial: j.episode.Trial,
		Seed: j.episode.Seed, RewardMode: episode.Terminal, Pressure: s.Plan.Pressure, EpisodeID: s.episodeID(j),
		IDKey: poolkey.IDKey(s.Credential), Turns: p.turns, Attempts: j.attempts, DurationMS: took.Milliseconds(),
		Receipt: p.end.Metadata.Receipt, Customer: p.end.Metadata.Customer,
	}
	if j.tokens != (score.Tokens{}) {
		e.Tokens = &j.tokens
	}
	m := p.end.Metadata
	e.Grade = record.Grade{
		Outcome: m.Outcome, Class: class, Score: m.EpisodeScore, Wrong: m.Right != nil && !*m.Right,
		Judge: m.Judge, GraderVersion: m.GraderVersion,
		ScenarioDigest: m.ScenarioDigest, Verdicts: m.Verdicts,
	}
	if class != "" {
		e.Outcome, e.Score = score.Errored, nil
	}
	// A pool signs the first end of an episode and no other.
	e.Replayed = class == "" && e.Receipt == ""
	for _, d := range m.ScoreBreakdown {
		e.Dimensions = append(e.Dimensions, d.Dimension())
	}
	s.Record(e)
}

// playEpisode plays the job's episode to its end, which it stores in p. An error that another
// attempt may fix is a *failure.
func (w *worker) playEpisode(ctx context.Context, j job, p *played) error {
	agent, err := w.shard.Policy(j.episode)
	if err != nil {
		return &failure{class: score.ClassPolicy, err: err}
	}
	w.counted = score.Tokens{}
	defer func() {
		p.tokens = usageOf(agent)
		recordTokens(ctx, p.tokens)
	}()
	begun, err := w.resetEpisode(ctx, j)
	switch refused, _ := errors.AsType[*client.ServerError](err); {
	case refused != nil && refused.Code == protocol.CodeEnded:
		// An attempt before has ended it, and the answer was lost.
		p.end.Metadata.Outcome = score.Withheld
		return nil
	case refused != nil && refused.Code == protocol.CodeNoPlan:
		return fmt.Errorf("env pod %s: %w: %w", w.shard.pod, errLedgerLost, err)
	case err != nil:
		return w.classifyFailure(err)
	}
	if err := w.shard.prepared(); err != nil {
		return err
	}
	ctx, cancel := w.shard.boundStep(ctx, begun)
	defer cancel()
	if err := w.playTurns(ctx, agent, j, begun, p); err != nil {
		return err
	}
	switch end := p.end; end.Metadata.Outcome {
	case score.Scored, score.Failed, score.Withheld:
		return nil
	case score.Errored:
		return &failure{class: judgeClass(end.Metadata.Cause), err: newUnscoredError(end.Metadata.CauseDetail)}
	default:
		return &failure{class: score.ClassEnvironment,
			err: fmt.Errorf("the episode ended with the outcome %q: is the pool one of csenv's?", end.Metadata.Outcome)}
	}
}

func newUnscoredError(detail string) error {
	if detail == "" {
		return errors.New("the environment could not score the episode")
	}
	return fmt.Errorf("the environment could not score the episode: %s", detail)
}

func (w *worker) resetEpisode(ctx context.Context, j job) (client.Observation, error) {
	ctx, cancel := w.shard.boundStep(ctx, client.Observation{})
	defer cancel()
	return w.client.Reset(ctx, w.shard.resetOptions(j))
}

// maxSteps bounds the steps that an observation may announce.
const maxSteps = 1000

// boundStep gives an attempt the time for all the steps of its episode, refused ones included.
func (s *shard) boundStep(ctx context.Context, begun client.Observation) (context.Context, context.CancelFunc) {
	if s.EpisodeTimeout <= 0 {
		return context.WithCancel(ctx)
	}
	var seen struct {
		MaxSteps int `json:"max_steps"`
	}
	// An observation without max_steps adds no time.
	_ = json.Unmarshal(begun.Observation, &seen)
	actions := min(max(seen.MaxSteps, 0), maxSteps) + episode.MaxInvalidActions
	return context.WithTimeout(ctx, s.EpisodeTimeout+time.Duration(actions)*s.ActTimeout)
}

// recordTokens adds an attempt's tokens to its span.
func recordTokens(ctx context.Context, used score.Tokens) {
	if span := trace.SpanFromContext(ctx); span.IsRecording() {
		span.SetAttributes(semconv.GenAIUsageInputTokens(int(used.Prompt)),
			semconv.GenAIUsageOutputTokens(int(used.Completion)))
	}
}

// answerOf is the answer that contained the agent's last action.
func (w *worker) answerOf(agent policy.Policy) record.Answer {
	speaker, ok := agent.(policy.Speaker)
	if !ok {
		return record.Answer{}
	}
	answer := speaker.Answer()
	answer.DurationMS = w.asked.Milliseconds()
	return answer
}

// playTurns lets the agent act until the episode is done.
func (w *worker) playTurns(ctx context.Context, agent policy.Policy, j job, seen client.Observation, p *played) error {
	turn := policy.Turn{Environment: w.shard.Environment, Task: j.episode.Task, Schema: w.shard.schema,
		Planned: j.episode}
	for ; !seen.Done; turn.Step++ {
		if turn.Step == maxActions {
			return &failure{class: score.ClassEnvironment, err: fmt.Errorf("the episode was not over after %d actions",
				maxActions)}
		}
		turn.Observation = seen.Observation
		action, next, err := w.playTurn(ctx, agent, turn)
		if action == nil {
			return w.forfeit(ctx, err, p)
		}
		if turn.Refused = readRefusal(err); turn.Refused != "" {
			p.turns = append(p.turns, record.Turn{Action: action, Refused: turn.Refused, Answer: w.answerOf(agent)})
			continue
		}
		// An action that failed is also recorded: repeated, it may end the episode.
		p.turns = append(p.turns, record.Turn{Action: action, Reward: next.Reward, Answer: w.answerOf(agent)})
		if err != nil {
			return w.classifyFailure(err)
		}
		seen = next
	}
	p.end = seen
	return nil
}

// playTurn lets the agent act, and sends its action. Without an action, the error is why.
func (w *worker) playTurn(ctx context.Context, agent policy.Policy, turn policy.Turn) (json.RawMessage,
	client.Observation, error) {
	ctx, span := startStep(ctx, turn.Step)
	action, err := w.chooseAction(ctx, agent, turn)
	var next client.Observation
	if err == nil {
		tool, used := tracing.StartSpan(ctx, "execute_tool")
		next, err = w.sendAction(tool, action)
		w.shard.endTool(tool, used, action, next, err)
	}
	endStep(span, err)
	return action, next, err
}

// startStep starts the span of an action and its effect.
func startStep(ctx context.Context, step int) (context.Context, trace.Span) {
	ctx, span := tracing.StartSpan(ctx, tracing.SpanStep)
	if span.IsRecording() {
		span.SetAttributes(tracing.KeyStep.Int(step))
	}
	return ctx, span
}

// endStep ends the span of a step. A refused action isn't an error: the agent may try another.
func endStep(span trace.Span, err error) {
	defer span.End()
	if err == nil || !span.IsRecording() {
		return
	}
	if readRefusal(err) != "" {
		span.SetAttributes(tracing.KeyRefused.Bool(true))
		return
	}
	tracing.FailSpan(span, classOf(err))
}

// sendAction sends an action, and repeats it while the server reports that it could not judge it: a
// failed action has no effect. The server ends the episode after several such failures.
func (w *worker) sendAction(ctx context.Context, action json.RawMessage) (client.Observation, error) {
	for attempt := 0; ; attempt++ {
		seen, err := w.client.Step(ctx, action)
		if refused, ok := errors.AsType[*client.ServerError](err); !ok || refused.Cause == "" ||
			attempt == episode.MaxJudgeFailures {
			return seen, err
		}
		if slept := w.shard.Clock.backOff(ctx, attempt); slept != nil {
			return seen, errors.Join(err, slept)
		}
	}
}

func (w *worker) chooseAction(ctx context.Context, agent policy.Policy, turn policy.Turn) (json.RawMessage, error) {
	action, err := w.askAgent(ctx, agent, turn)
	unanswered, endpoint := errors.AsType[*policy.EndpointError](err)
	switch {
	case errors.Is(err, errSpent):
		return nil, err
	case ctx.Err() != nil && w.shard.ActTimeout > 0:
		return nil, &failure{class: score.ClassAgentTimeout, err: fmt.Errorf("waiting for the agent: %w", ctx.Err())}
	case ctx.Err() != nil:
		return nil, &failure{class: score.ClassTimeout, err: fmt.Errorf("waiting for the policy: %w", ctx.Err())}
	case endpoint:
		return nil, &failure{class: unanswered.Class, after: unanswered.After, err: err}
	case err != nil:
		return nil, &failure{class: score.ClassPolicy, err: err}
	case !json.Valid(action):
		return nil, &failure{class: score.ClassPolicy,
			err: fmt.Errorf("the policy's action is not JSON: %.200q", action)}
	}
	return action, nil
}

// readRefusal is why an action doesn't match the schema, "" for any other error or none. The agent
// may try another action; the environment counts the invalid ones.
func readRefusal(err error) string {
	var refused *client.ServerError
	if errors.As(err, &refused) && refused.Code == codeValidation {
		return refused.Message
	}
	return ""
}

// classifyFailure classifies a client's error, and closes a session that is lost with it.
func (w *worker) classifyFailure(err error) error {
	var refused *client.ServerError
	if !errors.As(err, &refused) || refused.Code == codeCapacity || refused.Code == codeFactory ||
		refused.Code == codeSession {
		w.closeSession()
	}
	return &failure{class: classifyError(err), err: err}
}
