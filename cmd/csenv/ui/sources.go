package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/index"
	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
)

// sources are where the pages read runs, pools and episodes. Runs are identified by their folder in
// a store, NAMESPACE/NAME-UID8, so that a run of the cluster and its stored episodes are one run.
type sources struct {
	// version grows with each change of what the sources hold.
	version atomic.Int64
	// cluster is nil if only stores are read.
	cluster *cluster.Watcher
	// unasked means that the cluster is read only because csenv eval has stored nothing.
	unasked bool
	// stored is nil if only the cluster is read.
	stored *stored
	// vouchers are the keys of this machine and of the flags.
	vouchers source.Vouchers
}

// problem says why a source can't be read. Its error may name addresses and folders, which the
// plain text doesn't.
type problem struct {
	err   error
	plain string
	// read is the time of the state that is shown nevertheless, zero if there is none.
	read time.Time
}

// state is what the sources hold. Nobody may change its objects.
type state struct {
	pools []*v1alpha1.CustomerSupportEnv
	// runs are ordered by date, the newest first.
	runs     []*source.LoadedRun
	problems []problem
	// reading says how far the stores are read, "" if they are.
	reading string
}

// noNamespace stands for the empty namespace of a run in a path.
const noNamespace = "_"

// runID identifies a run.
func runID(r *v1alpha1.EvaluationRun) string {
	folder := results.RunFolder("", r.Name, string(r.UID))
	// A stored run has the name of its folder if another run has the same name.
	if uid := folder[len(r.Name):]; strings.HasSuffix(r.Name, uid) {
		folder = r.Name
	}
	return path.Join(r.Namespace, folder)
}

// runPlace is a run's id in two parts, as in the path of its page.
func runPlace(r *source.LoadedRun) (namespace, folder string) {
	namespace, folder, found := strings.Cut(runID(r.EvaluationRun), "/")
	if !found {
		return noNamespace, namespace
	}
	return namespace, folder
}

// runPath is the path of a run's page.
func runPath(r *source.LoadedRun) string {
	namespace, folder := runPlace(r)
	return "/runs/" + url.PathEscape(namespace) + "/" + url.PathEscape(folder)
}

// firstRead bounds the wait for the first answer of the cluster.
const firstRead = 3 * time.Second

// snapshot returns what is known of the cluster.
func (s *sources) snapshot(ctx context.Context) cluster.Snapshot {
	if s.cluster == nil {
		return cluster.Snapshot{}
	}
	select {
	case <-s.cluster.Ready():
	case <-ctx.Done():
	case <-time.After(firstRead):
	}
	found := s.cluster.Snapshot()
	if found.Problem == nil && found.Read.IsZero() {
		found.Problem = errors.New("reading pools and runs: the cluster hasn't answered yet")
	}
	return found
}

// clusterProblem says why the cluster can't be read, if it can't.
func clusterProblem(observed cluster.Snapshot) []problem {
	if observed.Problem == nil {
		return nil
	}
	return []problem{{observed.Problem, "The cluster can't be read at present.", observed.Read}}
}

// state reads all sources. What can't be read is a problem of the state.
func (s *sources) state(ctx context.Context) state {
	observed := s.snapshot(ctx)
	if observed.Problem != nil && s.unasked {
		observed.Problem = source.ExplainCluster(observed.Problem, false)
	}
	found := state{pools: observed.Pools, problems: clusterProblem(observed)}
	byID := map[string]*source.LoadedRun{}
	for _, run := range observed.Runs {
		byID[runID(run)] = source.FromCluster(s.cluster.Connection(), run)
	}
	if s.stored != nil {
		stored, err := s.stored.list(ctx)
		if err != nil {
			found.problems = append(found.problems, problem{err: err, plain: "A store can't be read at present."})
		}
		vouchers := s.vouch(observed.Pools)
		for _, run := range stored {
			id := runID(run.EvaluationRun)
			byID[id] = s.mergeRuns(byID[id], run, vouchers)
		}
		found.reading = s.stored.reading()
	}
	for _, run := range byID {
		found.runs = append(found.runs, run)
	}
	slices.SortFunc(found.runs, func(a, b *source.LoadedRun) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			strings.Compare(runID(a.EvaluationRun), runID(b.EvaluationRun)))
	})
	return found
}

// vouch returns the keys whose signatures count on a board: the keys of this machine, of the flags,
// and of the cluster's pools.
func (s *sources) vouch(pools []*v1alpha1.CustomerSupportEnv) source.Vouchers {
	all := maps.Clone(s.vouchers)
	if all == nil {
		all = source.Vouchers{}
	}
	all.AddPools(pools)
	return all
}

// notInCluster marks stored runs beside the runs of a cluster: whoever may write to the store can
// add them, so they are on boards of their own.
const notInCluster = "only stored: the cluster has no such run"

// mergeRuns is a run of the cluster, nil if it has none, with its stored episodes, or else the
// stored run.
func (s *sources) mergeRuns(inCluster, stored *source.LoadedRun, vouchers source.Vouchers) *source.LoadedRun {
	if inCluster != nil {
		return inCluster.WithStored(stored)
	}
	alone := vouchers.Signed(stored)
	if s.cluster != nil {
		alone.Apart = notInCluster
	}
	return alone
}

// runs returns all runs, the newest first. It is an error if there are none because a source can't
// be read.
func (s *sources) runs(ctx context.Context) ([]*source.LoadedRun, error) {
	found := s.state(ctx)
	if len(found.runs) > 0 {
		return found.runs, nil
	}
	var problems []error
	for _, p := range found.problems {
		problems = append(problems, p.err)
	}
	return nil, errors.Join(problems...)
}

// run finds a run by the values of its path.
func (s *sources) run(ctx context.Context, namespace, folder string) (*source.LoadedRun, error) {
	id := folder
	if namespace != noNamespace {
		id = namespace + "/" + folder
	}
	var found *source.LoadedRun
	observed := s.snapshot(ctx)
	for _, run := range observed.Runs {
		if runID(run) == id {
			found = source.FromCluster(s.cluster.Connection(), run)
		}
	}
	failed := observed.Problem
	if s.stored != nil {
		if run := s.stored.run(ctx, id); run != nil {
			found = s.mergeRuns(found, run, s.vouch(observed.Pools))
		}
	}
	switch {
	case found != nil:
		return found, nil
	case failed != nil:
		return nil, failed
	}
	return nil, notFound("There is no run %s: it was deleted, or its store isn't shown.", id)
}

// episodes returns the index of the run's episodes and the run's id there.
func (s *sources) episodes(run *source.LoadedRun) (*index.Index, string, error) {
	if s.stored != nil {
		if id := s.stored.indexID(runID(run.EvaluationRun)); id != "" {
			return s.stored.index, id, nil
		}
	}
	switch location := run.Status.Results; {
	case location == "":
		return nil, "", notFound("The episodes of run %s aren't stored: create it again with spec.results, or play it "+
			"with `csenv eval`.", run.Name)
	case source.InVolume(location):
		return nil, "", notFound("The episodes of run %s are in a volume of the cluster, %s: copy them to this "+
			"machine and start csenv ui with --results and their folder.", run.Name, location)
	default:
		return nil, "", notFound("The episodes of run %s are at %s: start csenv ui with --results and the location of "+
			"that store.", run.Name, location)
	}
}

// unread says how much of a stored run is read, "" if all is.
func (s *sources) unread(run *source.LoadedRun) string {
	if s.stored == nil {
		return ""
	}
	return s.stored.unreadOf(runID(run.EvaluationRun))
}

// unreadOf says how much of a run is read, "" if all is.
func (s *stored) unreadOf(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.byID[id]; run.Unread > 0 {
		return fmt.Sprintf("%d of %d parts are read.", run.Segments-run.Unread, run.Segments)
	}
	return ""
}

// episode reads the record of an episode.
func (s *sources) episode(ctx context.Context, run *source.LoadedRun, number int64) (record.Episode, error) {
	x, id, err := s.episodes(run)
	if err != nil {
		return record.Episode{}, err
	}
	e, err := x.Episode(ctx, id, number)
	if errors.Is(err, index.ErrNoEpisode) {
		err = notFound("Run %s has no stored episode with the index %d.", run.Name, number)
	}
	return e, err
}
