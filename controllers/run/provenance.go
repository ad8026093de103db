package run

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

// NewProvenance is what a run is made with that begins now: against servers of an image that report
// what they grade with, counted by a program of a version.
func NewProvenance(run *v1alpha1.EvaluationRun, report score.Report, image,
	version string) (*v1alpha1.Provenance, error) {
	agent, err := digest(run.Spec.Agent)
	if err != nil {
		return nil, err
	}
	spec := run.Spec.DeepCopy()
	spec.Parallelism, spec.Suspend, spec.TTLSecondsAfterFinished, spec.Retain = nil, nil, nil, ""
	seed := new(ptr.Deref(run.Spec.Seed, 0))
	if isExternal(run) {
		spec.ActiveDeadlineSeconds, seed = nil, nil
	}
	hash, err := digest(spec)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Provenance{
		Image: image, OperatorVersion: version, ScenarioDigest: report.ScenarioDigest,
		GraderVersion: report.GraderVersion, Judge: report.Judge,
		AgentDigest: agent, Seed: seed, SpecHash: hash,
	}, nil
}

// digest is "sha256:" and the hex digest of a value's JSON.
func digest(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("digesting %T: %w", v, err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
