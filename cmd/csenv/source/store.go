package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/local"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/envvars"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/play/results"
	"github.com/csenv/csenv/envserver/play/results/buckets"
	"github.com/csenv/csenv/envserver/score"
)

// Reader reads the runs of a store: from the store itself, or from an index of it. A run is named
// by its folder below the store.
type Reader interface {
	Runs(ctx context.Context) ([]string, error)
	Manifest(ctx context.Context, run string) (results.Manifest, error)
	// Episodes yields the records that count, see results.Store.
	Episodes(ctx context.Context, run string) iter.Seq2[record.Episode, error]
	// Sum sums up the same records.
	Sum(ctx context.Context, run string, plan score.Plan) (*Sum, error)
	Close() error
}

// Stored reads the runs at a location.
type Stored struct {
	Reader
	location string
}

// NewStored reads the runs of the store at a location with a reader.
func NewStored(r Reader, location string) *Stored { return &Stored{r, location} }

// OpenStored opens a store that must exist.
func OpenStored(ctx context.Context, location string) (*Stored, error) {
	store, err := OpenStore(ctx, location)
	if err != nil {
		return nil, err
	}
	return NewStored(summing{store}, location), nil
}

// OpenStore opens a store that must exist.
func OpenStore(ctx context.Context, location string) (*results.Store, error) {
	folder, isFile := strings.CutPrefix(location, "file://")
	if isFile || !strings.Contains(location, "://") {
		info, err := os.Stat(folder)
		switch {
		case err != nil:
			return nil, fmt.Errorf("there is no folder %s: give the folder or URL in which episodes are stored", folder)
		case !info.IsDir():
			return nil, fmt.Errorf("%s is a file: give the folder or URL in which episodes are stored", folder)
		}
	}
	return buckets.Open(ctx, location)
}

var uidPattern = regexp.MustCompile(`-[0-9a-f]{8}$`)

// runName returns the name of the run in a folder of the store.
func (s *Stored) runName(folder string) string {
	base := path.Base(folder)
	if folder == "" {
		location, _, _ := strings.Cut(s.location, "?")
		base = path.Base(location)
	}
	return uidPattern.ReplaceAllString(base, "")
}

// findStored reads runs by name, or all runs if there are no names. If several runs have the same
// name, the name of the folder selects one.
func (f *Flags) findStored(ctx context.Context, location string, names []string) ([]*LoadedRun, error) {
	own, err := local.ReadPublicKey()
	if err != nil {
		return nil, err
	}
	vouchers, err := NewVouchers(own, f.keys)
	if err != nil {
		return nil, err
	}
	s, err := OpenStored(ctx, location)
	if err != nil {
		return nil, err
	}
	folders, err := s.Runs(ctx)
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("%s contains no runs: `csenv eval --results %s` stores one", location, location)
	}
	all := len(names) == 0
	if all {
		names = folders
	}
	var found []*LoadedRun
	for _, name := range names {
		folder, err := s.folder(ctx, folders, name)
		if err != nil {
			return nil, err
		}
		run, err := s.Load(ctx, folder)
		if err != nil && (!all || ctx.Err() != nil) {
			return nil, err
		}
		if err != nil {
			f.leaveOut("run "+folder, err)
			continue
		}
		if n := run.Stored.Broken; n > 0 {
			f.leaveOut(view.FormatCount(n, "line")+" of run "+folder, run.Stored.Problem)
		}
		found = append(found, vouchers.Signed(run))
	}
	tellApart(found)
	return found, nil
}

// leaveOut says what of a store isn't read.
func (f *Flags) leaveOut(what string, err error) {
	f.unread = true
	view.WriteParagraph(f.cmd.ErrOrStderr(), "", fmt.Sprintf("left out %s: %v", what, err))
}

// tellApart gives runs of the same name the names of their folders.
func tellApart(runs []*LoadedRun) {
	names := map[string]int{}
	for _, r := range runs {
		names[r.Name]++
	}
	for _, r := range runs {
		if names[r.Name] > 1 {
			r.Name = r.ID()
		}
	}
}

// ID names a run of a store by its folder, which no other run has, and one of the cluster by its
// name.
func (r *LoadedRun) ID() string {
	folder := path.Base(results.RunFolder("", r.Name, string(r.UID)))
	if r.Stored == nil || strings.HasSuffix(r.Name, strings.TrimPrefix(folder, r.Name)) {
		return r.Name
	}
	return folder
}

func (s *Stored) folder(ctx context.Context, folders []string, name string) (string, error) {
	if slices.Contains(folders, name) {
		return name, nil
	}
	var matches []string
	for _, folder := range folders {
		if s.runName(folder) == name || path.Base(folder) == name {
			matches = append(matches, folder)
		}
	}
	switch len(matches) {
	case 0:
		known := slices.Sorted(slices.Values(view.MapItems(folders, s.runName)))
		if len(slices.Compact(slices.Clone(known))) < len(known) {
			known = folders // of which no two have the same name
		}
		return "", fmt.Errorf("there is no run %s in %s: choose one of %s", name, s.location,
			strings.Join(slices.Compact(known), ", "))
	case 1:
		return matches[0], nil
	}
	dated := make([]string, len(matches))
	for i, folder := range matches {
		m, err := s.Manifest(ctx, folder)
		if err != nil {
			return "", err
		}
		tasks := view.MapItems(m.Plan.Tasks, func(t score.PlanTask) string { return t.Name })
		dated[i] = fmt.Sprintf("%s (%s, seed %d, %s)", folder, strings.Join(tasks, ", "), m.Plan.Seed,
			view.FormatUTC(m.Written))
	}
	return "", fmt.Errorf("%s contains several runs named %s: choose one of %s", s.location, name,
		strings.Join(dated, ", "))
}

// Load rebuilds the run in a folder of the store from its plan and episodes, and compares it with
// its baseline.
func (s *Stored) Load(ctx context.Context, folder string) (*LoadedRun, error) {
	loaded, err := s.read(ctx, folder)
	if err == nil {
		err = s.compare(ctx, loaded)
	}
	if err != nil {
		return nil, err
	}
	return loaded, nil
}

// compare compares a complete stored run with its baseline and checks its thresholds again. They
// wait if the baseline isn't stored here.
func (s *Stored) compare(ctx context.Context, loaded *LoadedRun) error {
	run := loaded.EvaluationRun
	complete := meta.FindStatusCondition(run.Status.Conditions, v1alpha1.ConditionComplete)
	if run.Spec.BaselineRef == nil || complete.Status != metav1.ConditionTrue {
		return nil
	}
	with, err := s.baseline(ctx, run.Spec.BaselineRef.Name)
	if err != nil {
		with = evaluation.Baseline{}
	}
	var sums score.Accumulator
	if err := sums.UnmarshalText([]byte(run.Status.Shards.Accumulator)); err != nil {
		return fmt.Errorf("reading the sums of run %s: %w", run.Name, err)
	}
	run.Status.Baseline = evaluation.CompareBaseline(run, loaded.table, with)
	meta.SetStatusCondition(&run.Status.Conditions, evaluation.ComparedCondition(*run.Status.Baseline, with))
	for _, c := range evaluation.BuildConditions(run, run.Status, sums, evaluation.Outcome{State: evaluation.Completed,
		Reason: complete.Reason, Message: complete.Message}) {
		meta.SetStatusCondition(&run.Status.Conditions, c)
	}
	return nil
}

// read rebuilds a run from its stored plan and episodes.
func (s *Stored) read(ctx context.Context, folder string) (*LoadedRun, error) {
	m, err := s.Manifest(ctx, folder)
	if err != nil {
		return nil, err
	}
	run := &v1alpha1.EvaluationRun{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(),
		Kind: "EvaluationRun"}}
	run.Name, run.UID = s.runName(folder), types.UID(m.Plan.Run)
	if namespace := path.Dir(folder); namespace != "." {
		run.Namespace = namespace
	}
	if err := json.Unmarshal(m.Agent, &run.Spec.Agent); err != nil {
		return nil, fmt.Errorf("reading the agent of %s: %w", run.Name, err)
	}
	copyPlan(run, m.Plan)
	run.Labels = m.Labels
	if m.Note != "" {
		run.Annotations = map[string]string{local.NoteAnnotation: m.Note}
	}
	run.CreationTimestamp = metav1.NewTime(m.Written)
	limits := evaluation.Limits{}
	if len(m.Limits) > 0 {
		if err := json.Unmarshal(m.Limits, &limits); err != nil {
			return nil, fmt.Errorf("reading the limits of %s: %w", run.Name, err)
		}
	}
	run.Spec.Retries.MaxErroredPercent, run.Spec.Thresholds = limits.MaxErroredPercent, limits.Thresholds
	run.Spec.Prices, run.Spec.CustomerPrices = limits.Prices, limits.CustomerPrices
	if limits.Baseline != "" {
		run.Spec.BaselineRef = &v1alpha1.ObjectReference{Name: limits.Baseline}
	}
	report := score.Report{ScenarioDigest: m.Plan.ScenarioDigest, GraderVersion: m.Plan.GraderVersion,
		Judge: m.Plan.Judge}
	if run.Status.Provenance, err = evaluation.NewProvenance(run,
		evaluation.Offer{Version: m.Runner, Report: report, LedgerKey: m.Plan.LedgerKey}); err != nil {
		return nil, err
	}
	run.Status.Provenance.SpecHash = "" // the spec is known in part
	run.Status.Results = results.JoinLocation(s.location, folder)
	episodes := func(ctx context.Context) iter.Seq2[record.Episode, error] {
		return func(yield func(record.Episode, error) bool) {
			for e, err := range s.Episodes(ctx, folder) {
				if !errors.Is(err, record.ErrNotRecord) && !yield(e, err) {
					return
				}
			}
		}
	}
	sum, err := s.Sum(ctx, folder, m.Plan)
	if err != nil {
		return nil, err
	}
	sum.conclude(run, m.Plan)
	if err := s.setStanding(ctx, folder, run); err != nil {
		return nil, err
	}
	table := tableOf(sum.Ledger)
	return &LoadedRun{EvaluationRun: run, Episodes: episodes, Lost: sum.lostPoints(), table: table,
		Stored: &StoredFigures{sum.Claimed, sum.Broken, sum.Problem},
		Scores: func(context.Context) ([]score.ScenarioScore, error) { return table.Rows(), nil }}, nil
}

// conclude writes the figures into the run's status.
func (s *Sum) conclude(run *v1alpha1.EvaluationRun, plan score.Plan) {
	summary := score.Summary{Retried: s.Retried, Tokens: s.Tokens, Durations: s.Durations, Mute: s.Mute,
		Counts: s.Counts}
	for _, class := range view.SortedKeys(s.Errored) {
		summary.Errored = append(summary.Errored, score.ErrorClass{Class: class, Episodes: *s.Errored[class]})
	}
	var sums score.Accumulator
	sums.FoldSummary(s.Ledger, summary)
	evaluation.WritePlan(&run.Status, plan)
	evaluation.WriteFigures(&run.Status, sums, score.IndexSet{})
	evaluation.WriteCosts(&run.Status, &run.Spec)
	concludeStored(run, sums, s.Claimed)
}

// lostPoints lists what the episodes lost, the most costly first.
func (s *Sum) lostPoints() []LostPoints {
	var out []LostPoints
	for reason, t := range s.Lost {
		if parts := strings.SplitN(reason, "/", 3); len(parts) == 3 {
			out = append(out, LostPoints{parts[0], parts[1], parts[2], t.Episodes, t.Points})
		}
	}
	sortLost(out)
	return out
}

// copyPlan copies the plan into the spec.
func copyPlan(run *v1alpha1.EvaluationRun, plan score.Plan) {
	run.Spec.Seed, run.Spec.PassScore = &plan.Seed, v1alpha1.Number{Text: score.FormatExact(plan.PassScore)}
	if plan.Pressure {
		run.Spec.Pressure = v1alpha1.ResponseTimePressure
	}
	for _, t := range plan.Tasks {
		trials := int32(t.Trials) //nolint:gosec // at most score.MaxTrials
		run.Spec.Tasks = append(run.Spec.Tasks, v1alpha1.TaskSelection{Name: t.Name, Trials: trials,
			Scenarios: &v1alpha1.ScenarioSelection{IDs: t.Scenarios}})
	}
}

// concludeStored sets the conditions that follow from the stored episodes. claimed counts those
// that are left out, because they have no valid receipt.
func concludeStored(run *v1alpha1.EvaluationRun, sums score.Accumulator, claimed int) {
	e := run.Status.Episodes
	missing := e.Total - e.Scored - e.Failed - e.Errored
	outcome, ended := evaluation.DecideOutcome(
		run,
		run.Status,
		evaluation.Counted{Episodes: e.Total, Complete: missing <= 0,
			Why: evaluation.AllCounted, Mute: sums.Mute},
	)
	if !ended {
		outcome = evaluation.Outcome{State: evaluation.Running, Reason: v1alpha1.ReasonRunning}
	}
	if claimed > 0 {
		outcome.Message += fmt.Sprintf(" %s stored without a valid receipt: no server vouches for their scores, which "+
			"are in no figure.", view.FormatCount(claimed, "episode"))
	}
	run.Status.Agent = evaluation.AgentName(run.Spec.Agent)
	run.Status.Conditions = evaluation.BuildConditions(run, run.Status, sums, outcome)
}

// ErrNothingStored means that the episodes of a run aren't stored.
var ErrNothingStored = errors.New("stores no episodes: create it again with spec.results in its " +
	"manifest, or play it with `csenv eval`; trainers store the episodes of External runs")

// InVolume reports whether a run of the cluster stores its episodes in a volume of the runners.
func InVolume(location string) bool {
	return strings.HasPrefix(location, "file://") || !strings.Contains(location, "://")
}

// openAllowed opens the store of a run of the cluster, whose author chose the address, if the host
// allows it: requests are signed with the credentials of this machine.
func openAllowed(ctx context.Context, location string) (*results.Store, error) {
	address, err := buckets.Address(location)
	if err != nil {
		return nil, err
	}
	for allowed := range strings.FieldsSeq(os.Getenv(envvars.Stores)) {
		allowed, err := buckets.Address(allowed)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", envvars.Stores, err)
		}
		if allowed == address {
			return buckets.Open(ctx, location)
		}
	}
	return nil, fmt.Errorf("the author of the run chose the address %[1]s, and this machine's credentials are sent to "+
		"no address that isn't allowed: if you trust it, set %[2]s='%[1]s' (several addresses are separated by blanks)",
		address, envvars.Stores)
}

// episodesAt reads the stored episodes of a run of the cluster.
func episodesAt(ctx context.Context, run *v1alpha1.EvaluationRun) iter.Seq2[record.Episode, error] {
	return func(yield func(record.Episode, error) bool) {
		if run.Status.Results == "" {
			yield(record.Episode{}, fmt.Errorf("run %s %w", run.Name, ErrNothingStored))
			return
		}
		if InVolume(run.Status.Results) {
			yield(record.Episode{}, fmt.Errorf("the episodes of run %s are in a volume of the cluster, %s: copy them "+
				"here and give the folder with --results", run.Name, run.Status.Results))
			return
		}
		store, err := openAllowed(ctx, run.Status.Results)
		if err != nil {
			yield(record.Episode{}, fmt.Errorf("%w: credentials are read from the environment of this machine", err))
			return
		}
		defer store.Close()
		for e, err := range store.Episodes(ctx, "") {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Objections reads what people have written against the grades of a run, by episode. Only runs in a
// folder of this machine have any.
func (r *LoadedRun) Objections(ctx context.Context) (map[int64]results.Objection, error) {
	store, err := r.OwnStore(ctx)
	if store == nil || err != nil {
		return nil, err
	}
	defer store.Close()
	return store.Objections(ctx, "")
}

// OwnStore opens the folder of a run that csenv eval has played on this machine. It is nil for
// runs of pools and in buckets.
func (r *LoadedRun) OwnStore(ctx context.Context) (*results.Store, error) {
	if r.Stored == nil || r.Namespace != "" || r.Status.Results == "" ||
		strings.Contains(strings.TrimPrefix(r.Status.Results, "file://"), "://") {
		return nil, nil
	}
	return OpenStore(ctx, r.Status.Results)
}
