// Package operator runs the real operator against a real API server with many pods that are only
// simulated, and holds what it measures to the ranges of ranges.yaml.
//
// etcd and kube-apiserver are envtest's; kube-controller-manager turns Deployments and Jobs into
// pods, as in any cluster. What a scheduler and kubelets would do, a simulated node does in this
// process (node.go): pods run at once, and each has a loopback address on which this process
// answers for its server (fleet.go). The operator is a process of its own, so that its memory is
// its own, and what it writes is counted twice: by the API server and by its own client.
//
// A scenario is a function from a rig to figures. Figures that leave their range fail the program.
package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"go.uber.org/zap/zapcore"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// scenario measures one thing at scale.
type scenario struct {
	name, about string
	measure     func(ctx context.Context, r *rig, s settings) ([]figure, error)
}

func listScenarios() []scenario {
	return []scenario{
		{"pools", "many pools: at rest, under load, and read all at once by an operator that has just started",
			measurePools},
		{"runs", "one run of very many episodes, then many runs at the same time, with runners that leave summaries " +
			"signed with the pool's key", measureRuns},
		{"sessions", "a million sessions, reported by the servers of autoscaled pools that they fill", measureSessions},
	}
}

// errMissed means that a figure is out of its range.
var errMissed = errors.New("a figure is out of its range")

// Run measures the scenarios of these names, all of them without any. The file has their sizes and
// the ranges that their figures have to keep to: if one doesn't, Run returns an error.
func Run(ctx context.Context, names []string, path string, out, progress io.Writer) error {
	selected, err := selectScenarios(names)
	if err != nil {
		return err
	}
	settings, err := readSettings(path)
	if err != nil {
		return err
	}
	// What the simulated node logs is of no interest; its errors are.
	ctrl.SetLogger(zap.New(zap.WriteTo(progress), zap.Level(zapcore.ErrorLevel)))

	missed := false
	for _, s := range selected {
		figures, err := measureOne(ctx, s, settings[s.name], progress)
		if err != nil {
			return fmt.Errorf("running scenario %s: %w", s.name, err)
		}
		kept, err := reportFigures(out, s, figures, settings[s.name].Ranges)
		if err != nil {
			return err
		}
		missed = missed || !kept
	}
	if missed {
		return errMissed
	}
	return nil
}

// selectScenarios finds scenarios by their names, all of them without any.
func selectScenarios(names []string) ([]scenario, error) {
	if len(names) == 0 {
		return listScenarios(), nil
	}
	var selected []scenario
	for _, name := range names {
		i := slices.IndexFunc(listScenarios(), func(s scenario) bool { return s.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q", name)
		}
		selected = append(selected, listScenarios()[i])
	}
	return selected, nil
}

// measureOne gives the scenario a cluster of its own, so that nothing of another one is in its
// figures.
func measureOne(ctx context.Context, s scenario, settings settings, progress io.Writer) (figures []figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, settings.Deadline.Duration)
	defer cancel()
	r, err := newRig(ctx, settings, newProgressLogger(progress, s.name, time.Now()))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return s.measure(ctx, r, settings)
}

// newProgressLogger prints progress with the time that has passed.
func newProgressLogger(w io.Writer, name string, started time.Time) func(format string, args ...any) {
	return func(format string, args ...any) {
		fmt.Fprintf(w, "%s [%3.0fs] %s\n", name, time.Since(started).Seconds(), fmt.Sprintf(format, args...))
	}
}
