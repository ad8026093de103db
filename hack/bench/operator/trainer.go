package operator

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/csenv/csenv/api/v1alpha1"
	"github.com/csenv/csenv/envserver/score"
)

const (
	// segmentEpisodes is the number of episodes that trainers have ended when a server is asked.
	segmentEpisodes = 20
	// instance is the instance of every simulated server.
	instance = "simulated"
)

// rollouts answers for a server on which trainers play.
func (p *players) rollouts(pod *corev1.Pod) http.HandlerFunc {
	name := pod.Name
	pool := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[v1alpha1.LabelEnvironment]}
	return func(w http.ResponseWriter, r *http.Request) {
		question, err := score.ParseCollectRequest(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		key, err := p.key(r.Context(), pool)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		segment, err := p.collect(question, name, key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(segment) // the operator asks again
	}
}

// collect returns the segment after the one that the operator acknowledges: the same one until it
// is acknowledged too.
func (p *players) collect(question score.CollectRequest, pod string, key ed25519.PrivateKey) (score.Segment, error) {
	segment := score.Segment{Pod: pod, Instance: instance}
	if question.Done {
		return segment, nil
	}
	segment.Number = question.Ack + 1
	p.mu.Lock()
	p.segments[question.Tag] = max(p.segments[question.Tag], segment.Number)
	p.mu.Unlock()
	ledger := score.Ledger{
		Run: score.SegmentRun(question.Run, pod, instance), Shard: int(segment.Number), PassScore: question.PassScore,
		ScenarioDigest: scenarioDigest, GraderVersion: graderVersion, Judge: judgeName,
	}
	for i := range int64(segmentEpisodes) {
		index := question.Ack*segmentEpisodes + i
		if _, err := addEpisode(&ledger, score.PlannedEpisode{Index: index, Task: runTask, Scenario: scenarioID(0),
			Seed: index}); err != nil {
			return segment, err
		}
	}
	signed, err := ledger.Sign(key)
	segment.Ledger = &signed
	return segment, err
}
