package player

import (
	"bytes"
	"fmt"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/openenv/protocol"
)

// WriteState appends the answer to a state message.
func (p *Player) WriteState(out *bytes.Buffer) {
	out.WriteString(`{"type":"state","data":`)
	if err := p.AppendState(out); err != nil {
		out.Reset()
		protocol.WriteError(out, protocol.PlayError(err))
		return
	}
	out.WriteByte('}')
}

// AppendState appends the environment's state with what the server adds: the number of steps that
// it has answered with an observation, as OpenEnv counts them, and the size of the data set, which
// AgileRL's trainers read.
func (p *Player) AppendState(out *bytes.Buffer) error {
	mark := out.Len()
	state := p.env.State()
	if stepped, ok := state.(episode.Stepped); ok && stepped.Steps() != p.answered {
		state = stepped.WithSteps(p.answered)
	}
	err := protocol.EncodeJSON(out, state)
	if encoded := out.Bytes()[mark:]; err == nil && (len(encoded) < 3 || encoded[0] != '{') {
		err = fmt.Errorf("it is not a JSON object with members but %.20q", encoded)
	}
	if err != nil {
		out.Truncate(mark)
		return fmt.Errorf("encoding the state: %w", err)
	}
	out.Truncate(out.Len() - 1)
	fmt.Fprintf(out, `,"dataset_size":%d}`, p.Tasks.Rows())
	return nil
}
