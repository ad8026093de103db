package workflow

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"hash"
	"os"
	"slices"
	"testing"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/talk"
)

var updateFrozen = flag.Bool("update", false, "write the hashes of what is served")

const frozenFile = "testdata/frozen.json"

// TestFrozen compares what is served, and what it earns, with hashes of before: the schemas, the
// tools, the digest of the catalogue, and every answer while written workflows and generated cases
// are played. With -short it plays a few of them.
func TestFrozen(t *testing.T) {
	catalog, kind := publicKind(t)
	got := map[string]string{"digest": catalog.Digest()}
	schemas := kind.Schemas()
	got["tools"] = hashJSON(t, schemas.Tools)
	schemas.Tools = nil
	got["schemas"] = hashJSON(t, schemas)
	for name, sample := range map[string]struct {
		scenarios []*scenarios.WorkflowScenario
		seeds     int64
		few       int64 // seeds with -short
		stride    int   // with -short
	}{
		"workflows": {catalog.Workflows(), 20, 1, 1},
		"cases":     {casesAndTalks(catalog)["case"], 4, 1, 30},
		"talks":     {casesAndTalks(catalog)["talk"], 2, 1, 30},
	} {
		seeds, stride := []int64{sample.few, sample.seeds}, sample.stride
		if testing.Short() {
			seeds = seeds[:1]
		}
		for _, most := range seeds {
			f := frozen{sha256.New(), sha256.New()}
			for i := 0; i < len(sample.scenarios); i += stride {
				for seed := range most {
					f.play(t, kind, sample.scenarios[i], seed)
				}
			}
			name := map[bool]string{true: name + ", a few", false: name}[most == sample.few]
			got[name+", observations"], got[name+", rewards"] = sum16(f.observations), sum16(f.rewards)
			stride = 1
		}
	}
	compareFrozen(t, got)
}

func compareFrozen(t *testing.T, got map[string]string) {
	t.Helper()
	if *updateFrozen {
		text, err := json.MarshalIndent(got, "", "  ")
		if err == nil {
			err = os.WriteFile(frozenFile, append(text, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(frozenFile)
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]string
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for name, hash := range got {
		if hash != want[name] {
			t.Errorf("%s changed: run with -update, without -short, if that is intended", name)
		}
	}
}

// frozen hashes the answers of episodes.
type frozen struct{ observations, rewards hash.Hash }

// play plays the required steps of an instance and, before each of them, on forks, an action of
// every kind that isn't a required one.
func (f *frozen) play(t *testing.T, kind *Kind, s *scenarios.WorkflowScenario, seed int64) {
	t.Helper()
	e := resetTo(t, kind, s, seed)
	w := e.state.workflow
	f.add(t, kind, episode.Result{Observation: e.state.observation()})
	others := otherActions(w)
	for _, required := range w.Steps {
		for _, action := range others {
			fork, _ := e.Fork().(*environment)
			f.add(t, kind, step(t, fork, action))
		}
		for range 2 { // again after a scripted failure
			failed := e.state.faults
			f.add(t, kind, step(t, e, goldAction(w, required)))
			if e.state.faults == failed {
				break
			}
		}
	}
}

// add hashes an answer as it is sent and, apart from it, what it earns.
func (f *frozen) add(t *testing.T, kind *Kind, r episode.Result) {
	t.Helper()
	earned, err := json.Marshal([]any{r.Reward, r.Done, r.Final})
	if err != nil {
		t.Fatal(err)
	}
	f.rewards.Write(earned)
	r.Reward, r.Final = 0, nil
	var sent bytes.Buffer
	if err := protocol.WriteResult(&sent, kind, r); err != nil {
		t.Fatal(err)
	}
	f.observations.Write(sent.Bytes())
}

// otherActions are actions of every kind with arguments that name records of the instance.
func otherActions(w *scenarios.Workflow) []string {
	order, sku := "LD-999999", "SKU-1"
	if o := w.Records.Orders; w.Policy != nil && len(o) > 0 {
		order, sku = o[0].ID, o[0].Items[0].SKU
	} else if len(o) > 0 {
		order = o[len(o)-1].ID
	}
	type args map[string]any
	var actions []string
	for _, a := range []struct {
		action  string
		payload args
	}{
		{desk.CheckOrder, args{"order_id": order}}, {desk.CheckOrder, args{"order_id": "LD-000000"}}, {desk.CheckOrder, nil},
		{desk.CheckPayment, args{"order_id": order}}, {desk.CheckPayment, args{"payment_id": "PAY-0"}},
		{desk.CheckPayment, nil},
		{desk.CheckShipment, args{"order_id": order}}, {desk.LookUpCustomer, args{"order_id": order}},
		{desk.LookUpPolicy, args{"topic": "money"}}, {desk.LookUpPolicy, args{"topic": "weather"}},
		{desk.AskCustomer, args{"message": "What colour is it?"}}, {desk.AskCustomer, nil},
		{desk.Refunding, args{"order_id": order, "amount": "1.01"}}, {desk.Refunding, args{"order_id": order}},
		{desk.Refunding, args{"payment_id": "PAY-0", "amount": 3}},
		{desk.Crediting, args{"order_id": order, "amount": "1.02"}}, {desk.Crediting, args{"amount": 2}},
		{desk.Replacing, args{"order_id": order, "sku": sku}}, {desk.Replacing, args{"order_id": order, "sku": "NONE"}},
		{desk.Cancelling, args{"order_id": order}}, {desk.Cancelling, args{"order_id": "LD-000000"}},
		{desk.Readdressing, args{"order_id": order, "address": "1 Another Street"}},
		{desk.Readdressing, args{"order_id": order}},
		{desk.Escalating, args{"team": "legal", "order_id": order, "reason": "It is so."}}, {desk.Escalating, nil},
		{desk.RespondUser, args{"message": "All is well."}}, {desk.RespondUser, nil},
		{desk.Tell, args{"message": "What colour is it?"}}, {desk.Tell, args{"message": "And this?", "asks": talk.Topics}},
		{desk.Tell, args{"message": "May we?", "confirms": desk.ListChanges(), "offers": desk.ListChanges(), "order_id": order}},
	} {
		if a.action == desk.Tell && w.Talk == nil {
			continue
		}
		text, err := json.Marshal(map[string]any{"action_type": a.action, "payload": a.payload})
		if err != nil {
			panic(err)
		}
		actions = append(actions, string(text))
	}
	return slices.Clip(actions)
}

func hashJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	h.Write(text)
	return sum16(h)
}

func sum16(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }
