package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/csenv/csenv/envserver/play/policy"
)

// printed is what has been printed so far.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(data)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// The doctor shows what a model can do as it finds it: when it asks for the list of models, which
// comes last, all other rows are there.
func TestDoctorShowsRowsAsTheyCome(t *testing.T) {
	var out printed
	var before string // the list of models was asked for
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			before = out.String()
			fmt.Fprint(w, `{"data": [{"id": "m", "max_model_len": 8192}]}`)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"choices": [{"message": {"content": "{\"action_type\": \"classify\", \"category\": \"billing\", `+
			`\"priority\": \"low\"}"}}], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}`)
	}))
	t.Cleanup(server.Close)
	m := models{agent: policy.OpenAIConfig{Model: "m", BaseURL: server.URL + "/v1"}, mode: "tools", task: "ticket-classify"}
	var c checkup
	c.checkModels(t.Context(), &m, &out)
	for _, row := range []string{policy.AbilityTurns, policy.AbilityTools, policy.AbilityJSON, policy.AbilitySeed,
		policy.AbilityLogProbs} {
		if !strings.Contains(before, row+": ") {
			t.Errorf("%s isn't shown before the list of models is asked for:\n%s", row, before)
		}
	}
	if last := policy.AbilityContext + ": 8192 tokens"; strings.Contains(before, last) || !strings.Contains(out.String(), last) {
		t.Errorf("at the end:\n%s", out.String())
	}
}
