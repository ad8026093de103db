package ui

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/openenv"
	openenvclient "github.com/csenv/csenv/envserver/openenv/client"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/web/page"
	"github.com/csenv/csenv/envserver/web/play"
	"github.com/csenv/csenv/envserver/web/transcript"
	"github.com/csenv/csenv/scenarios"
)

// playPath is the path of the playground.
const playPath = "/play"

// poolsTimeout bounds the listing of pools, so that the playground works without the cluster.
const poolsTimeout = 3 * time.Second

// arena has the places to play at: this machine, servers by URL, and the pools of the cluster.
type arena struct {
	here []play.Target
	// connect connects to the cluster, nil if only stores are read.
	connect func() (*cluster.Connection, error)
	token   string
}

// newArena makes the places to play at. The servers of this machine start when they are first used
// and end with the context.
func newArena(ctx context.Context, catalog *scenarios.Catalog, servers []string, log *slog.Logger) *arena {
	a := &arena{token: os.Getenv(envvars.PoolToken)}
	for _, environment := range []v1alpha1.EnvironmentType{v1alpha1.TicketEnvironment, v1alpha1.WorkflowEnvironment} {
		started := sync.OnceValues(func() (*openenv.Server, error) { return serveHere(ctx, environment, catalog, log) })
		name := strings.ToLower(string(environment))
		a.here = append(a.here, play.Target{ID: name, Name: "This machine, " + name,
			Note: "With the offline judge and the scenarios that csenv ui was started with.",
			Open: func(r *http.Request, _ string) (play.Server, error) {
				server, err := started()
				if err != nil {
					return play.Server{}, err
				}
				return play.Server{URL: "http://" + name,
					Options: openenvclient.Options{Connect: server.Connect(r.RemoteAddr)}}, nil
			},
			Review: func(ctx context.Context, e record.Episode) (transcript.Transcript, error) {
				e.Environment = name
				return transcript.ReplayEpisode(ctx, catalog, e)
			}})
	}
	for i, url := range servers {
		a.here = append(a.here, play.Target{ID: fmt.Sprintf("server-%d", i+1), Name: "Server " + url,
			Open: func(*http.Request, string) (play.Server, error) {
				return play.Server{URL: url, Options: openenvclient.Options{Token: a.token}}, nil
			}})
	}
	return a
}

// serveHere makes an env server in this process.
func serveHere(ctx context.Context, environment v1alpha1.EnvironmentType, catalog *scenarios.Catalog,
	log *slog.Logger) (*openenv.Server, error) {
	pool := &v1alpha1.CustomerSupportEnv{Spec: v1alpha1.CustomerSupportEnvSpec{Environment: environment}}
	kind, err := local.NewKind(pool, catalog, offline.New())
	if err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, fmt.Errorf("making a ledger key: %w", err)
	}
	server, err := openenv.New(openenv.Config{Kind: kind, LedgerKey: key, Version: cli.Version, Logger: log})
	if err != nil {
		return nil, fmt.Errorf("making the env server: %w", err)
	}
	context.AfterFunc(ctx, server.Close)
	return server, nil
}

// targets lists the places to play at. The error says why pools are missing.
func (a *arena) targets(r *http.Request) ([]play.Target, error) {
	targets := slices.Clone(a.here)
	if a.connect == nil {
		return targets, nil
	}
	c, err := a.connect()
	if err != nil {
		return targets, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), poolsTimeout)
	defer cancel()
	pools := &v1alpha1.CustomerSupportEnvList{}
	if err := c.List(ctx, pools, c.Namespace, ""); err != nil {
		return targets, cluster.ExplainError(err, "listing the pools")
	}
	for i := range pools.Items {
		targets = append(targets, a.pool(c, &pools.Items[i]))
	}
	return targets, nil
}

// pool returns the target of a pool.
func (a *arena) pool(c *cluster.Connection, pool *v1alpha1.CustomerSupportEnv) play.Target {
	name := types.NamespacedName{Namespace: pool.Namespace, Name: pool.Name}
	closed := pool.Spec.Access.Play == v1alpha1.RunsOnlyPlay
	return play.Target{ID: "pool-" + name.Namespace + "-" + name.Name, Name: "Pool " + name.String(),
		Note: "Through the API server. Your episodes count in no run.",
		Open: func(r *http.Request, _ string) (play.Server, error) {
			if closed {
				return play.Server{}, fmt.Errorf("pool %s plays only the episodes of runs (spec.access.play is %s): "+
					"choose another place", name.Name, v1alpha1.RunsOnlyPlay)
			}
			if pool.Spec.Access.TokenSecretRef != nil && a.token == "" {
				return play.Server{}, fmt.Errorf("pool %s needs a token: start csenv ui with %s set to it", name.Name,
					envvars.PoolToken)
			}
			tunnel, err := c.Tunnel(r.Context(), name)
			if err != nil {
				return play.Server{}, err
			}
			return play.Server{URL: "http://" + tunnel.Pod, Close: tunnel.Close, Options: openenvclient.Options{
				Token: a.token, Silence: protocol.MaxSilence, Connect: tunnel.Connect}}, nil
		}}
}

// playground makes the pages below playPath. They end with the context.
func (s *site) playground(ctx context.Context, places *arena) (http.Handler, error) {
	config := play.Config{Path: playPath, Targets: places.targets, Log: s.log,
		Title: func(scenario string) string { return s.titleOf(scenario, 0) },
		Layout: func(r *http.Request, title string, main any) page.Page {
			return s.layout(r.Context(), shown{"", title, "play", main})
		}}
	if s.public {
		config.Closed = "This site is public: it shows aggregated figures only."
	}
	games, err := play.New(config)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, games.Close)
	return games, nil
}
