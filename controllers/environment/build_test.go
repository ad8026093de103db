package environment

import (
	"context"
	"crypto/ed25519"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/controllers/testkit/testpool"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

var (
	pool          = testpool.MakePool
	replicas      = testpool.WithReplicas
	everyOverride = testpool.EveryOverride
	withPacks     = testpool.WithPacks
	unready       = testpool.SetUnready
	terminating   = testpool.SetTerminating
	waiting       = testpool.SetWaiting
	ended         = testpool.SetEnded
	report        = testpool.NewReport
	playing       = testpool.NewPacksReport
	noon          = testpool.Noon
)

// server returns a running and ready pod of the newest template.
func server(name string, edits ...func(*corev1.Pod)) corev1.Pod {
	template := children.BuildPodTemplate(children.Pool{Env: pool(), Image: testpool.Image}, "")
	return testpool.NewServer(template, name, edits...)
}

// anyKeys has the secrets of every pool.
type anyKeys struct{}

func (anyKeys) Secrets(context.Context, types.NamespacedName, string) (*poolkey.Secrets, error) {
	return poolkey.DeriveSecrets(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
}

// statsFunc reads the reports of servers with a function.
type statsFunc func(ctx context.Context, podIP string) (score.Report, error)

func (f statsFunc) Report(ctx context.Context, podIP, _ string, _ ...string) (score.Report, error) {
	return f(ctx, podIP)
}
