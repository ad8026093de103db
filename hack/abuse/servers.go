package main

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/envserver/env/ticket"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/process"
	"github.com/csenv/csenv/scenarios"
)

// kind is a kind of attacked server, with what other clients do on it.
type kind struct {
	args []string
	// launch starts it, nil for an env server with the args.
	launch func(ctx context.Context, folder string, k *kind) (*server, error)
	// players is the number of clients, 0 for a dozen.
	players int
	// play plays until the second context ends. It calls each for every request.
	play func(ctx, until context.Context, s *server, seed int, each func(func() error) error) error
	// limit is the memory of its pod in bytes, 0 for a pool's server.
	limit int64
}

func (k *kind) count() int { return cmp.Or(k.players, clients) }

func (k *kind) memory() int64 { return cmp.Or(k.limit, podMemory) }

var (
	tickets   = &kind{play: onSession(playTicket)}
	workflows = &kind{args: []string{"--environment", "workflow"}, play: onSession(playWorkflow)}
	// runs plays nothing but runs, in few sessions.
	runs = &kind{args: []string{"--runs-only", "--ledger-key", keyFile, "--max-sessions", "200"}, play: playRuns}
	// pool is two servers. The first one is attacked and ends.
	pool  = &kind{launch: startPool, players: 100, play: onSession(playTicket)}
	pages = &kind{launch: startPages, play: readPages, limit: pagesMemory}
)

// server is the attacked process.
type server struct {
	*process.Server
	kind *kind
	// front is the address that clients use.
	front string
	// next lets new connections reach the other server of a pool alone, and returns it.
	next func() *process.Server
	end  func()
}

// keyFile is in the folder of a run of this command, like the programs.
const keyFile = "key.pem"

// poolSecrets derives the secrets of the key.
func poolSecrets() *poolkey.Secrets {
	secrets, err := poolkey.DeriveSecrets(poolKey)
	if err != nil {
		panic(err) // never
	}
	return secrets
}

// poolKey is the ledger key of every server that has one, and is known to the attack's process.
var poolKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// buildPrograms builds the programs, and writes the key and a store for the pages.
func buildPrograms(ctx context.Context, folder string) error {
	if err := os.WriteFile(filepath.Join(folder, keyFile), poolkey.Encode(poolKey), 0o600); err != nil {
		return err
	}
	for _, args := range [][]string{{"go", "build", "-o", folder, "./cmd/envserver", "./cmd/csenv"},
		{filepath.Join(folder, "csenv"), "eval", "ticket-classify", "--results", filepath.Join(folder, "store")}} {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // of this command
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	return nil
}

// start starts what is attacked.
func (k *kind) start(ctx context.Context, folder string) (*server, error) {
	launch := k.launch
	if launch == nil {
		launch = func(ctx context.Context, folder string, k *kind) (*server, error) {
			s, err := startServer(ctx, folder, k.args...)
			if err != nil {
				return nil, err
			}
			return &server{Server: s, front: s.Address, end: s.Kill}, nil
		}
	}
	s, err := launch(ctx, folder, k)
	if err == nil {
		s.kind = k
	}
	return s, err
}

// startServer starts an env server.
func startServer(ctx context.Context, folder string, args ...string) (*process.Server, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "envserver"), append([]string{"--addr", "127.0.0.1:0",
		"--ops-addr", "127.0.0.1:0", "--max-sessions", fmt.Sprint(maxSessions), "--client-share",
		fmt.Sprint(clientShare)}, args...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%d", podMemory/10*9), "GOMAXPROCS=2")
	return process.StartServer(ctx, "the server", cmd)
}

// startPool starts two servers behind an address that leads to the first one, as a Service does
// whose other endpoints aren't ready.
func startPool(ctx context.Context, folder string, _ *kind) (*server, error) {
	addresses, err := process.FreeAddresses(ctx, 2)
	if err != nil {
		return nil, err
	}
	var members []*process.Server
	end := func() {
		for _, member := range members {
			member.Kill()
		}
	}
	for _, address := range addresses {
		member, err := startServer(ctx, folder, "--addr", address, "--advertise", address, "--peers",
			strings.Join(addresses, ","), "--ledger-key", keyFile, "--hand-over", "--drain-timeout", "2s")
		if err != nil {
			end()
			return nil, err
		}
		members = append(members, member)
	}
	var target atomic.Pointer[process.Server]
	target.Store(members[0])
	front, err := process.NewFront(ctx, func() string { return target.Load().Address })
	if err != nil {
		end()
		return nil, err
	}
	return &server{Server: members[0], front: front.Address(), end: func() { _ = front.Close(); end() },
		next: func() *process.Server { target.Store(members[1]); return members[1] }}, nil
}

// endFirstServer ends the first server of a pool, as a rolling update does. The next one is left.
func endFirstServer(ctx context.Context, s *server) error {
	sleepContext(ctx, 5*time.Second) // until the attack is under way
	next := s.next()
	err := s.StopCleanly(attackTime)
	s.Server = next
	return err
}

// startPages starts the pages of a store.
func startPages(ctx context.Context, folder string, _ *kind) (*server, error) {
	addresses, err := process.FreeAddresses(ctx, 1)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(folder, "csenv"), "ui", "--no-open", "--listen", addresses[0],
		"--results", "store", "--index", "index")
	cmd.Dir = folder
	p, err := process.Start("the pages", cmd)
	if err != nil {
		return nil, err
	}
	serves := func() bool { return strings.Contains(p.Logs(), "the pages are at") }
	if err := p.Await(ctx, time.Minute, serves); err != nil {
		p.Kill()
		return nil, err
	}
	return &server{Server: &process.Server{Process: p, Address: addresses[0]}, front: addresses[0], end: p.Kill}, nil
}

// readPages reads pages on connections that stay open.
func readPages(ctx, until context.Context, s *server, _ int, each func(func() error) error) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	for until.Err() == nil {
		if err := each(func() error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.front+"/", http.NoBody)
			if err != nil {
				return err
			}
			response, err := (&http.Client{Transport: transport}).Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
				err = errors.New("a page: " + response.Status)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// publicTickets is the kind whose scenarios the servers play.
var publicTickets = sync.OnceValues(func() (*ticket.Kind, error) {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return nil, err
	}
	return ticket.New(catalog, offline.New())
})

// plannedRun is a run with a shard for every scenario of ticket-classify.
type plannedRun struct {
	plan       score.Plan
	text       []byte
	credential string
}

func planRun(id, namespace string, maxScenarios int) (r plannedRun, err error) {
	kind, err := publicTickets()
	if err != nil {
		return r, err
	}
	const task = "ticket-classify"
	var ids []string
	for _, t := range kind.Tasks() {
		for _, s := range t.Scenarios[:min(len(t.Scenarios), maxScenarios)] {
			if t.Name == task {
				ids = append(ids, s.ID)
			}
		}
	}
	r.plan, err = score.NewPlan(score.Plan{Run: id, Seed: 1, PassScore: score.One,
		ScenarioDigest: kind.ScenarioDigest(), GraderVersion: kind.GraderVersion(), Judge: kind.Judge(),
		LedgerKey: score.FormatPublicKey(poolKey.Public().(ed25519.PublicKey)), //nolint:forcetypeassert // it is one
		Tasks:     []score.PlanTask{{Name: task, Trials: 1, Scenarios: ids}}}, len(ids))
	if err != nil {
		return r, err
	}
	r.text, err = json.Marshal(r.plan)
	grant := poolkey.Grant{Plan: score.FingerprintOf(r.text), Namespace: namespace}
	r.credential = poolSecrets().RunCredential(id, grant)
	return r, err
}

// playShard plays a shard on the server at an address, as a runner does.
func (r plannedRun) playShard(ctx context.Context, address string, shard int, each func(func() error) error) error {
	base, o := "http://"+address, client.Options{Credential: r.credential}
	if err := each(func() error {
		_, err := client.OpenLedger(ctx, base, client.Shard{Run: r.plan.Run, Shard: shard, PassScore: r.plan.PassScore,
			Plan: r.text}, nil, o)
		return err
	}); err != nil {
		return err
	}
	for episode := range r.plan.Shard(shard) {
		c, err := client.Dial(ctx, base, o)
		if err != nil {
			return err
		}
		err = playActions(ctx, c, each, map[string]any{"seed": episode.Seed, "task": episode.Task,
			"scenario": episode.Scenario, "run": r.plan.Run, "shard": shard, "episode": episode.Index,
			"pass_score": r.plan.PassScore, "run_credential": r.credential},
			map[string]any{"action_type": "classify", "category": "billing", "priority": "low"})
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
	return nil
}

// playRuns plays one short run after the other, of another namespace than the attack.
func playRuns(ctx, until context.Context, s *server, seed int, each func(func() error) error) error {
	for n := 0; until.Err() == nil; n++ {
		r, err := planRun(fmt.Sprintf("run-%d-%d-%d", seed, n, time.Now().UnixNano()), "team-a", 2)
		if err != nil {
			return err
		}
		for shard := range r.plan.Shards {
			if err := r.playShard(ctx, s.front, shard, each); err != nil {
				return err
			}
			if err := each(func() error {
				_, err := client.FetchLedger(ctx, "http://"+s.front, r.plan.Run, shard,
					client.Options{Credential: r.credential})
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
