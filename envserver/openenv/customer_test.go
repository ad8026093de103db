package openenv

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/workflow"
	"github.com/csenv/csenv/envserver/grader/offline"
	"github.com/csenv/csenv/envserver/testkit"
	"github.com/csenv/csenv/envserver/testkit/wire"
	"github.com/csenv/csenv/scenarios/talk"
)

// numbering is a customer that says other words each time.
type numbering struct{ said atomic.Int64 }

func (*numbering) Name() string { return "numbering" }

func (*numbering) Hear(_ context.Context, m *workflow.Message, to *episode.Exchange) error {
	to.Heard = m.Stated
	return nil
}

func (n *numbering) Word(_ context.Context, _ *talk.Turn, to *episode.Exchange) error {
	to.Words = fmt.Sprintf("These are words %d.", n.said.Add(1))
	return nil
}

// TestRestoredSessionsHaveTheCustomersWords restores an episode at another server, whose customer
// has said other words before: it has those of the first, and then its own.
func TestRestoredSessionsHaveTheCustomersWords(t *testing.T) {
	const tell = `{"action_type":"tell","payload":{"message":"Hello?"}}`
	talking := func(said int64) *workflow.Kind {
		kind, err := workflow.New(testkit.Catalog(t), offline.New())
		if err != nil {
			t.Fatal(err)
		}
		customer := &numbering{}
		customer.said.Store(said)
		kind.SetCustomer(customer)
		return kind
	}
	_, url := serve(t, Config{Kind: talking(0)})
	_, other := serve(t, Config{Kind: talking(40)})
	id := wire.CreateSession(t, url)
	wire.PostBody(t, url+"/reset", fmt.Sprintf(`{"session_id":%q,"task":"talk-medium","seed":1}`, id))
	act(t, url, id, tell)
	elsewhere := restored(t, other, saved(t, url, id))
	got := act(t, other, elsewhere, tell)
	if !strings.Contains(got, "These are words 1.") || !strings.Contains(got, "These are words 41.") {
		t.Errorf("after the restoration: %s", got)
	}
	if here := act(t, url, id, tell); !strings.Contains(here, "These are words 2.") {
		t.Errorf("at the first server: %s", here)
	}
	plain, err := workflow.New(testkit.Catalog(t), offline.New())
	if err != nil {
		t.Fatal(err)
	}
	_, third := serve(t, Config{Kind: plain})
	answer := wire.CallRPC(t, third, "session/restore", fmt.Sprintf(`{"checkpoint":%q}`, saved(t, url, id)))
	if !strings.Contains(answer, "other_version") {
		t.Errorf("at a server with another customer: %s", answer)
	}
}
