package environment

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/csenv/csenv/controllers/environment/children"
	"github.com/csenv/csenv/internal/testkit/testpool"
)

var (
	pool          = testpool.New
	replicas      = testpool.Replicas
	everyOverride = testpool.EveryOverride
	withPacks     = testpool.WithPacks
	unready       = testpool.Unready
	terminating   = testpool.Terminating
	waiting       = testpool.Waiting
	ended         = testpool.Ended
	report        = testpool.Report
	playing       = testpool.Playing
	bounds        = testpool.Bounds
	noon          = testpool.Noon
)

// server returns a running and ready pod of the newest template.
func server(name string, edits ...func(*corev1.Pod)) corev1.Pod {
	template := children.BuildPodTemplate(children.Pool{Env: pool(), Image: testpool.Image}, "")
	return testpool.Server(template, name, edits...)
}
