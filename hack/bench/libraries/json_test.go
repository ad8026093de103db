package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/bytedance/sonic"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	goccy "github.com/goccy/go-json"
)

type envelope struct {
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

type envelopeV2 struct {
	Type string         `json:"type"`
	Data jsontext.Value `json:"data"`
}

func strictStd(frame []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(frame))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// BenchmarkDecodeStep decodes the envelope and then the action, as the server and the environment
// do.
func BenchmarkDecodeStep(b *testing.B) {
	frame := []byte(stepFrame)
	for name, decode := range map[string]func() (string, error){
		"encoding-json": func() (string, error) {
			var e envelope
			var a action
			return a.ActionType, errors.Join(strictStd(frame, &e), strictStd(e.Data, &a))
		},
		"encoding-json-lax": func() (string, error) {
			var e envelope
			var a action
			return a.ActionType, errors.Join(json.Unmarshal(frame, &e), json.Unmarshal(e.Data, &a))
		},
		"goccy": func() (string, error) {
			var e envelope
			var a action
			return a.ActionType, errors.Join(goccy.Unmarshal(frame, &e), goccy.Unmarshal(e.Data, &a))
		},
		"sonic": func() (string, error) {
			var e envelope
			var a action
			return a.ActionType, errors.Join(sonic.ConfigStd.Unmarshal(frame, &e),
				sonic.ConfigStd.Unmarshal(e.Data, &a))
		},
		"json-experiment": func() (string, error) {
			var e envelopeV2
			var a action
			strict := jsonv2.RejectUnknownMembers(true)
			return a.ActionType, errors.Join(jsonv2.Unmarshal(frame, &e, strict), jsonv2.Unmarshal(e.Data, &a, strict))
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeObservation(b *testing.B) {
	obs := sampleObservation()
	var buf bytes.Buffer
	for name, encode := range map[string]func() error{
		"encoding-json": func() error { _, err := json.Marshal(obs); return err },
		"encoding-json-buffer": func() error {
			buf.Reset()
			enc := json.NewEncoder(&buf)
			enc.SetEscapeHTML(false)
			return enc.Encode(obs)
		},
		"goccy": func() error { _, err := goccy.Marshal(obs); return err },
		"sonic": func() error { _, err := sonic.ConfigStd.Marshal(obs); return err },
		"json-experiment-v1": func() error {
			buf.Reset()
			return jsonv2.MarshalWrite(&buf, obs, jsonv1.DefaultOptionsV1())
		},
		"json-experiment-v2": func() error { buf.Reset(); return jsonv2.MarshalWrite(&buf, obs) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
