package evaluate

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/cmd/csenv/cluster"
	"github.com/csenv/csenv/cmd/csenv/figures"
	"github.com/csenv/csenv/cmd/csenv/view"
	"github.com/csenv/csenv/controllers/evaluation"
)

// followInterval is the interval between two reads of a followed run.
const followInterval = time.Second

// followPatience is how long reads of a followed run may fail before following stops.
const followPatience = 5 * time.Minute

// followRun waits until the run has ended and shows its progress. It returns the run as last read.
func followRun(cmd *cobra.Command, c *cluster.Connection, run *v1alpha1.EvaluationRun,
	every time.Duration) *v1alpha1.EvaluationRun {
	ctx, name := cmd.Context(), run.Name
	bar := view.NewMeter(cmd.ErrOrStderr(), "run "+name, time.Now)
	state := ""
	answered := time.Now()
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		read := &v1alpha1.EvaluationRun{}
		if err := c.Get(ctx, cluster.NameOf(run), read); err != nil {
			if passing(err) && time.Since(answered) < followPatience {
				return false, nil
			}
			return false, cluster.Explain(err, "reading run "+name)
		}
		run, answered = read, time.Now()
		if evaluation.Resumes(run) {
			return false, nil // the conditions are those of the last attempt
		}
		if now, message := figures.StateOf(run); now != state {
			state = now
			if !bar.Terminal || now != v1alpha1.ReasonRunning {
				view.Paragraph(cmd.ErrOrStderr(), "", fmt.Sprintf("%s: %s", now, message))
			}
		}
		if e := run.Status.Episodes; e != nil {
			mean := ptr.Deref(run.Status.Score, v1alpha1.Score{}).Mean
			bar.Set(view.Progress{Ended: e.Scored + e.Failed + e.Errored, Total: wanted(run), Errored: e.Errored,
				Score: mean})
		}
		return evaluation.Ended(run.Status.Conditions), nil
	})
	bar.Finish()
	run.APIVersion, run.Kind = v1alpha1.GroupVersion.String(), "EvaluationRun"
	if err == nil {
		return run
	}
	if ctx.Err() == nil {
		view.Paragraph(cmd.ErrOrStderr(), "", "stopped following: "+err.Error())
	}
	if ctx.Err() != nil || !apierrors.IsNotFound(err) {
		fmt.Fprintf(cmd.ErrOrStderr(), "the run continues; follow it with: csenv run --follow %s -n %s\n", name,
			c.Namespace)
	}
	return run
}

// wanted returns the number of episodes of a complete run, or UnknownTotal if trainers may play any
// number.
func wanted(run *v1alpha1.EvaluationRun) int64 {
	if agent := run.Spec.Agent; agent.Type == v1alpha1.ExternalAgent &&
		(agent.External == nil || agent.External.Episodes == nil) {
		return view.UnknownTotal
	}
	return run.Status.Episodes.Total
}

// passing reports whether an error of the API server may be temporary.
func passing(err error) bool {
	return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err)
}
