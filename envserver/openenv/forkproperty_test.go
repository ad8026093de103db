package openenv

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv/player"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/play/policy"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit"
)

const (
	// childVariable makes the test's program play continuations of the checkpoints in its input.
	childVariable = "CSENV_TEST_FORK_CHILD"
	// continuations is the number that TestContinuations plays, or that of its variable.
	continuations         = 1_000
	continuationsVariable = "CSENV_CONTINUATIONS"
	// perPrefix is the number of continuations of one beginning.
	perPrefix = 10
)

// explorer plays random actions of one environment.
type explorer struct {
	server  *Server
	kind    episode.Kind
	actions policy.Factory
}

func newExplorers(tb testing.TB) map[string]explorer {
	tb.Helper()
	workflows, err := workflow.New(testkit.Catalog(tb), offline.New())
	if err != nil {
		tb.Fatal(err)
	}
	explorers := map[string]explorer{}
	for _, kind := range []episode.Kind{newTicketKind(tb), workflows} {
		actions, err := policy.NewBuiltin(policy.Random, kind.Name(), testkit.Catalog(tb))
		if err != nil {
			tb.Fatal(err)
		}
		explorers[kind.Name()] = explorer{newTestServer(tb, Config{Kind: kind}), kind, actions}
	}
	return explorers
}

// play plays up to n random actions of a seed, some of them invalid, and writes the answers.
func (e explorer) play(p *player.Player, observation []byte, seed int64, n int, out io.Writer) ([]byte, error) {
	agent, err := e.actions(score.PlannedEpisode{Seed: seed})
	if err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(uint64(seed), 2))
	for range n {
		if !p.Playing() {
			break
		}
		action, err := agent.Act(context.Background(), policy.Turn{Environment: e.kind.Name(), Observation: observation})
		if err != nil {
			return nil, err
		}
		if random.IntN(20) == 0 {
			action = json.RawMessage(`{"action_type":"juggle"}`)
		}
		var answer bytes.Buffer
		reply := p.Act(context.Background(), action)
		reply.Write(&answer)
		if reply.Err == nil {
			observation = observationIn(answer.Bytes())
		}
		if _, err := out.Write(answer.Bytes()); err != nil {
			return nil, err
		}
	}
	return observation, nil
}

// observationIn returns the observation of a message.
func observationIn(message []byte) []byte {
	var m struct {
		Data struct {
			Observation json.RawMessage `json:"observation"`
		} `json:"data"`
	}
	_ = json.Unmarshal(message, &m) // the next action shows what is missing
	return m.Data.Observation
}

// begun returns a player after some random actions, which have not ended its episode.
func (e explorer) begun(seed int64) (*player.Player, []byte, error) {
	random := rand.New(rand.NewPCG(uint64(seed), 3))
	tasks := e.kind.Tasks()
	for attempt := range int64(100) {
		p, err := e.server.players.New(nil)
		if err != nil {
			return nil, nil, err
		}
		mode := []string{"dense", "terminal"}[random.IntN(2)]
		var answer bytes.Buffer
		p.Reset(fmt.Appendf(nil, `{"seed":%d,"task":%q,"reward_mode":%q}`, seed+attempt<<32,
			tasks[random.IntN(len(tasks))].Name, mode), protocol.StrictSeed, "data").Write(&answer)
		observation, err := e.play(p, observationIn(answer.Bytes()), seed, random.IntN(6), io.Discard)
		if err != nil {
			return nil, nil, fmt.Errorf("after %s: %w", answer.Bytes(), err)
		}
		if p.Playing() {
			return p, observation, nil
		}
	}
	return nil, nil, fmt.Errorf("every beginning of seed %d ends its episode", seed)
}

// digestOf plays a continuation and returns the digest of its answers.
func (e explorer) digestOf(p *player.Player, observation []byte, seed int64) (string, error) {
	sum := sha256.New()
	_, err := e.play(p, observation, seed, 8, sum)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// job is a beginning whose continuations a child process plays.
type job struct {
	Kind        string
	Seed        int64
	Checkpoint  string
	Observation []byte
}

// TestMain plays continuations in a child process of TestContinuations.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(playJobs(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// playJobs restores checkpoints and writes the digests of continuations, a line each.
func playJobs(in io.Reader, out io.Writer) int {
	explorers := newExplorers(&testing.T{})
	for jobs := json.NewDecoder(in); ; {
		var j job
		if err := jobs.Decode(&j); err != nil {
			return 0
		}
		e := explorers[j.Kind]
		for i := range int64(perPrefix) {
			restored, err := e.server.players.New(nil)
			if err == nil {
				err = restored.Restore(context.Background(), j.Checkpoint).Err
			}
			digest := fmt.Sprint(err)
			if err == nil {
				digest, _ = e.digestOf(restored, j.Observation, j.Seed+i)
			}
			fmt.Fprintln(out, digest)
		}
	}
}

// Every random continuation of a fork has the bytes of the same continuation without a fork, which
// another process plays from a checkpoint.
func TestContinuations(t *testing.T) {
	wanted := continuations
	if text := os.Getenv(continuationsVariable); text != "" {
		var err error
		if wanted, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	explorers := newExplorers(t)
	var workers sync.WaitGroup
	share := wanted / perPrefix / runtime.GOMAXPROCS(0)
	for worker := range runtime.GOMAXPROCS(0) {
		workers.Go(func() { compareContinuations(t, explorers, int64(worker)<<40, share) })
	}
	workers.Wait()
	t.Logf("%d continuations of %d beginnings are the same", share*runtime.GOMAXPROCS(0)*perPrefix,
		share*runtime.GOMAXPROCS(0))
}

// compareContinuations plays the continuations of beginnings with seeds from the first on.
func compareContinuations(t *testing.T, explorers map[string]explorer, first int64, beginnings int) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Error(err)
		return
	}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _, _ = in.Close(), child.Wait() }()
	elsewhere := bufio.NewScanner(out)
	for n := range beginnings {
		seed := first + int64(n)*perPrefix
		e := explorers[[]string{"ticket", "workflow"}[n%2]]
		original, observation, err := e.begun(seed)
		if err != nil {
			t.Error(err)
			return
		}
		checkpoint, err := original.Checkpoint()
		if err == nil {
			err = json.NewEncoder(in).Encode(job{e.kind.Name(), seed, checkpoint, observation})
		}
		for i := range int64(perPrefix) {
			fork := original.Fork(nil)
			if i == perPrefix-1 {
				fork = original // whose forks have played by now
			}
			digest, failed := e.digestOf(fork, observation, seed+i)
			if !elsewhere.Scan() || err != nil || failed != nil || digest != elsewhere.Text() {
				t.Errorf("continuation %d of %s seed %d: %s here, %s in another process (%v, %v)", i, e.kind.Name(), seed,
					digest, elsewhere.Text(), err, failed)
				return
			}
		}
	}
}

// Forks of one episode can be played at the same time.
func TestForksPlayAtTheSameTime(t *testing.T) {
	for name, e := range newExplorers(t) {
		for seed := range int64(20) {
			original, observation, err := e.begun(seed)
			if err != nil {
				t.Fatal(err)
			}
			var digests [8]string
			var playing sync.WaitGroup
			for i := range digests {
				fork := original.Fork(nil)
				playing.Go(func() { digests[i], _ = e.digestOf(fork, observation, seed) })
			}
			playing.Wait()
			want, err := e.digestOf(original, observation, seed)
			for i, got := range digests {
				if got != want || err != nil {
					t.Errorf("%s, seed %d: fork %d has the digest %s, the original %s (%v)", name, seed, i, got, want, err)
				}
			}
		}
	}
}
