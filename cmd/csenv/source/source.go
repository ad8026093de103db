// Package source reads runs and their episodes from a cluster or from a store.
package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cli"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// ToMicroPoints converts a score to micro-points.
func ToMicroPoints(points float64) int64 { return int64(points*score.One + 0.5) }

// Flags select the source of runs: the cluster or a store of episodes.
type Flags struct {
	cluster.Flags
	store string
	keys  []string
	// cmd is the command, whose first line says what is read.
	cmd *cobra.Command
	// unread means that runs of the store couldn't be read and were left out.
	unread bool
}

// Add adds the flags to a command that takes names of runs. The command exits with 1 if it left out
// runs that can't be read.
func (s *Flags) Add(cmd *cobra.Command) {
	s.Flags.Add(cmd)
	s.AddCluster(cmd)
	s.cmd = cmd
	cmd.Flags().StringVar(&s.store, "results", "", "`folder or URL` of stored episodes; by default that of csenv "+
		"eval, or without one the cluster")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
		if store := s.chosen(); store != "" {
			return storedNames(cmd.Context(), store), cobra.ShellCompDirectiveNoFileComp
		}
		return s.Complete(&v1alpha1.EvaluationRunList{})(cmd, args, to)
	}
	cmd.PostRunE = func(*cobra.Command, []string) error {
		if s.unread {
			return cli.ErrOutcome
		}
		return nil
	}
}

// chosen returns the store that is read, "" for the cluster.
func (s *Flags) chosen() string {
	var named []string
	if s.store != "" {
		named = []string{s.store}
	}
	if stores, _ := Choose(named, s.Asked(), FindLocal()); len(stores) > 0 {
		return stores[0]
	}
	return ""
}

// AddKeys adds the flag of the keys for which the user vouches, to a command that says which runs
// are ranked.
func (s *Flags) AddKeys(cmd *cobra.Command) { KeysFlag(cmd.Flags(), &s.keys) }

// KeysFlag adds the flag of the keys for which the user vouches.
func KeysFlag(f *pflag.FlagSet, keys *[]string) {
	f.StringArrayVar(keys, "key", nil, "public `KEY` of a pool that you trust, to rank stored runs that it has "+
		"signed; may be repeated")
}

func storedNames(ctx context.Context, location string) []string {
	s, err := OpenStored(ctx, location)
	if err != nil {
		return nil
	}
	folders, err := s.Runs(ctx)
	if err != nil {
		return nil
	}
	names := view.MapItems(folders, s.runName)
	slices.Sort(names)
	return slices.Compact(names)
}

// LoadedRun is a run with access to its scores and episodes.
type LoadedRun struct {
	*v1alpha1.EvaluationRun
	Scores   func(context.Context) ([]score.ScenarioScore, error)
	Episodes func(context.Context) iter.Seq2[record.Episode, error]
	// Lost are the points that the stored episodes lost, the most costly first.
	Lost []LostPoints
	// Stored is nil for a run of the cluster, whose figures the operator has counted.
	Stored *StoredFigures
	// Signer says whose key has signed the scores, "" if that is of nobody whom the reader trusts.
	Signer string
	// Apart says where a run is read from if it is listed beside a cluster's runs, "" otherwise.
	Apart string
	// Pool reads the pool of a run of the cluster, nil for a stored run.
	Pool func(context.Context) (*v1alpha1.CustomerSupportEnv, error)
	// table has the scores of a stored run.
	table *score.ScenarioTable
}

// StoredFigures say on what the figures of a stored run rest.
type StoredFigures struct {
	// Claimed counts the episodes with a score and no valid receipt, which are in no figure.
	Claimed int
	// Broken counts the lines that aren't records, which are left out. Problem is about the first.
	Broken  int
	Problem error
}

// Find reads runs by name, in the order of the names.
func (s *Flags) Find(ctx context.Context, names ...string) ([]*LoadedRun, error) {
	return s.All(ctx, "", names)
}

// All reads the named runs or, without names, the runs that match a selector, and says where. An
// error names the other source.
func (s *Flags) All(ctx context.Context, selector string, names []string) (runs []*LoadedRun, err error) {
	switch {
	case len(names) > 0 && selector != "":
		return nil, errors.New("give names of runs or -l, not both")
	case s.store != "" && s.Asked():
		return nil, errors.New("--results reads a store, and --cluster, --context, --kubeconfig and -n read a " +
			"cluster: give one of them")
	}
	store := s.chosen()
	if store == "" {
		if runs, err = s.findInCluster(ctx, selector, names); err != nil {
			return nil, ExplainCluster(err, s.Asked())
		}
		return runs, nil
	}
	s.say(store)
	chosen, err := labels.Parse(selector)
	if err == nil {
		runs, err = s.findStored(ctx, store, names)
	}
	runs = slices.DeleteFunc(runs, func(r *LoadedRun) bool { return !chosen.Matches(labels.Set(r.Labels)) })
	if err == nil && selector != "" && len(runs) == 0 {
		err = fmt.Errorf("no run in %s has the labels %s: omit -l for all", store, selector)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (--cluster reads those of a cluster)", err)
	}
	return runs, nil
}

// say says what is read, on standard output before text for people, or else on standard error.
func (s *Flags) say(source string) {
	w := s.cmd.ErrOrStderr()
	if f := s.cmd.Flags().Lookup("output"); f != nil && (f.Value.String() == "table" || f.Value.String() == "text") {
		w = s.cmd.OutOrStdout()
	}
	view.WriteParagraph(w, "", "runs of "+source)
}

func (s *Flags) findInCluster(ctx context.Context, selector string, names []string) ([]*LoadedRun, error) {
	c, err := s.Connect()
	if err != nil {
		return nil, err
	}
	var runs []*v1alpha1.EvaluationRun
	for _, name := range names {
		run, err := c.Run(ctx, name)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	if len(names) == 0 {
		if runs, err = c.Runs(ctx, selector); err != nil {
			return nil, err
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no run in namespace %s matches: choose another namespace with -n, or other labels "+
			"with -l", c.Namespace)
	}
	s.say(c.String())
	return view.MapItems(runs, func(run *v1alpha1.EvaluationRun) *LoadedRun { return FromCluster(c, run) }), nil
}

// FromCluster returns a run of the cluster.
func FromCluster(c *cluster.Connection, run *v1alpha1.EvaluationRun) *LoadedRun {
	return &LoadedRun{
		EvaluationRun: run,
		Signer:        namePool(evaluation.PoolOf(run)),
		Pool: func(ctx context.Context) (*v1alpha1.CustomerSupportEnv, error) {
			pool := &v1alpha1.CustomerSupportEnv{}
			return pool, c.Get(ctx, evaluation.PoolOf(run), pool)
		},
		Scores:   func(ctx context.Context) ([]score.ScenarioScore, error) { return clusterScores(ctx, c, run) },
		Episodes: func(ctx context.Context) iter.Seq2[record.Episode, error] { return episodesAt(ctx, run) },
	}
}

// clusterScores reads the scores by scenario from the run's ConfigMap or its stored episodes.
func clusterScores(ctx context.Context, c *cluster.Connection,
	run *v1alpha1.EvaluationRun) ([]score.ScenarioScore, error) {
	if run.Status.ScoresRef == nil {
		if run.Status.Results != "" {
			return foldScores(run, episodesAt(ctx, run))
		}
		return nil, fmt.Errorf("run %s has no scores by scenario (status.scoresRef): it isn't complete, or has too "+
			"many scenarios", run.Name)
	}
	data := &corev1.ConfigMap{}
	name := run.Status.ScoresRef.Name
	if err := c.Get(ctx, types.NamespacedName{Namespace: run.Namespace, Name: name}, data); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("the scores of run %s are missing: ConfigMap %s was deleted, and what replaces "+
				"it %w", run.Name, name, ErrTable)
		}
		return nil, cluster.ExplainError(err, "reading the scores of run "+run.Name)
	}
	table := &score.ScenarioTable{}
	if err := table.UnmarshalText([]byte(data.Data[v1alpha1.ScoresKey])); err != nil {
		return nil, fmt.Errorf("ConfigMap %s with the scores of run %s %w: %w", name, run.Name, ErrTable, err)
	}
	scores, err := checkTable(run, table)
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s was changed: %w", name, err)
	}
	return scores, nil
}

// foldScores sums a run's episodes by task and scenario, as their receipts say. The sums count if
// they are the status's.
func foldScores(run *v1alpha1.EvaluationRun,
	episodes iter.Seq2[record.Episode, error]) ([]score.ScenarioScore, error) {
	pass, err := evaluation.PassScore(run)
	if err != nil {
		return nil, err
	}
	key, err := score.ParsePublicKey(ptr.Deref(run.Status.Provenance, v1alpha1.Provenance{}).LedgerKey)
	if err != nil {
		return nil, fmt.Errorf("reading the stored scores of run %s: status.provenance.ledgerKey: %w", run.Name, err)
	}
	ledger := &score.Ledger{PassScore: pass}
	for e, err := range episodes {
		if err != nil {
			return nil, err
		}
		r, err := score.VerifyReceipt(e.Receipt, key)
		if err != nil || r.Run != string(run.UID) {
			continue // the fingerprint shows whether the episode counts
		}
		if err := ledger.Add(r.Planned, r.Episode); err != nil {
			return nil, err
		}
	}
	scores, err := checkTable(run, tableOf(ledger))
	if err != nil {
		// The store may have lost lines, which costs no place.
		return nil, fmt.Errorf("the stored episodes of run %s don't add up to its sums", run.Name)
	}
	return scores, nil
}

// tableOf returns the sums of a ledger by task and scenario.
func tableOf(ledger *score.Ledger) *score.ScenarioTable {
	table := &score.ScenarioTable{}
	table.Fold(ledger)
	return table
}

// Basis returns everything that scores must share to be comparable.
func (r *LoadedRun) Basis() (score.Basis, error) {
	return evaluation.NewBasis(r.EvaluationRun)
}

// AgentName returns a short name of the agent.
func AgentName(run *v1alpha1.EvaluationRun) string {
	return cmp.Or(run.Status.Agent, evaluation.AgentName(run.Spec.Agent))
}
