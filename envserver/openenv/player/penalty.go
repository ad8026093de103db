package player

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// penaliseAction answers an invalid action with the last observation, the faults and a negative
// reward. Neither the score nor a ledger changes.
func (p *Player) penaliseAction(invalid *episode.ActionError) Reply {
	var last bytes.Buffer
	err := protocol.EncodeJSON(&last, p.last.Observation)
	var observation []byte
	if err == nil {
		observation, err = withFaults(last.Bytes(), invalid)
	}
	if err != nil {
		return p.failReply(fmt.Errorf("answering an invalid action: %w", err))
	}
	p.countStep()
	return Reply{kind: p.Kind, result: episode.Result{Observation: json.RawMessage(observation), Reward: -*p.penalty}}
}

// withFaults sets the members feedback and errors of an observation.
func withFaults(observation []byte, invalid *episode.ActionError) ([]byte, error) {
	members, err := object.Read(observation, object.Unique)
	if err != nil {
		return nil, err
	}
	var feedback, errors jsontext.Value
	others := members.Take(map[string]*jsontext.Value{"feedback": &feedback, "errors": &errors})
	var out bytes.Buffer
	out.WriteByte('{')
	for _, m := range others {
		if err := protocol.EncodeJSON(&out, m.Name); err != nil {
			return nil, err
		}
		out.WriteByte(':')
		out.Write(m.Value)
		out.WriteByte(',')
	}
	out.WriteString(`"feedback":`)
	if err := protocol.EncodeJSON(&out, protocol.ClipMessage(invalid.Error())); err != nil {
		return nil, err
	}
	out.WriteString(`,"errors":`)
	if protocol.EncodeJSON(&out, invalid.Items) != nil { // an input isn't JSON
		items := slices.Clone(invalid.Items)
		for i := range items {
			items[i].Input = nil
		}
		if err := protocol.EncodeJSON(&out, items); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// noAction is outside the schema of every environment.
var noAction = []byte("null")

// refuseCall answers a call that makes no action at all, for example of an unknown tool. In an
// episode with a penalty it is an invalid action, which the environment counts.
func (p *Player) refuseCall(ctx context.Context, invalid *episode.ActionError) Reply {
	if p.penalty == nil {
		return p.failReply(invalid)
	}
	r := p.playStep(ctx, noAction)
	if r.Err == nil && !r.result.Done {
		p.answered-- // penalise counts it again
		return p.penaliseAction(invalid)
	}
	return r
}
