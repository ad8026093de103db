package evaluation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/csenv/csenv/api/v1alpha1"
)

// NewProvenance records what a run that begins now is played, graded and counted with.
func NewProvenance(run *v1alpha1.EvaluationRun, offer Offer) (*v1alpha1.Provenance, error) {
	agent, err := computeDigest(run.Spec.Agent)
	if err != nil {
		return nil, err
	}
	spec := run.Spec.DeepCopy()
	spec.Parallelism, spec.Suspend, spec.TTLSecondsAfterFinished, spec.Retain = nil, nil, nil, ""
	spec.Prices, spec.CustomerPrices, spec.Budget = nil, nil, nil
	seed := new(ptr.Deref(run.Spec.Seed, 0))
	if IsExternal(run) {
		// The deadline is how such a run is ended, and its episodes have the trainers' seeds.
		spec.ActiveDeadlineSeconds, seed = nil, nil
	}
	hash, err := computeDigest(spec)
	if err != nil {
		return nil, err
	}
	return &v1alpha1.Provenance{
		Image: offer.Image, ImageDigests: offer.ImageDigests, OperatorVersion: offer.Version,
		ScenarioDigest: offer.Report.ScenarioDigest,
		GraderVersion:  offer.Report.GraderVersion, Judge: offer.Report.Judge,
		AgentDigest: agent, Seed: seed, SpecHash: hash, LedgerKey: offer.LedgerKey,
	}, nil
}

// computeDigest is "sha256:" and the hex digest of a value's JSON.
func computeDigest(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("digesting %T: %w", v, err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
