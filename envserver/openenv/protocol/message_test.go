package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/env/object"
)

func TestDecodeMessage(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		kind MessageKind
		data string
	}{
		"reset without data": {`{"type":"reset"}`, ResetMessage, ""},
		"reset":              {`{"type":"reset","data":{"seed":1}}`, ResetMessage, `{"seed":1}`},
		"step":               {`{"data":{"a":[1,{"b":2}]},"type":"step"}`, StepMessage, `{"a":[1,{"b":2}]}`},
		"empty action":       {`{"type":"step","data":{}}`, StepMessage, `{}`},
		"gaps of pandas": {`{"type":"reset","data":{"a":NaN,"b":[Infinity,-Infinity,{"NaN":"-Infinity \"NaN\\"}]}}`,
			ResetMessage, `{"a":null,"b":[null,null,{"NaN":"-Infinity \"NaN\\"}]}`},
		"state": {"\n{\"type\":\"state\"}\n", StateMessage, ""},
		"close": {`{"type":"close"}`, CloseMessage, ""},
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(c.raw)
			m, fault := DecodeMessage(raw)
			if fault != nil || m.Kind != c.kind || string(m.Data) != c.data {
				t.Errorf("decoded to %q %s, fault %v", m.Kind, m.Data, fault)
			}
		})
	}
}

func TestErrorsPointAtTheFault(t *testing.T) {
	long := `"` + strings.Repeat("x", 4*maxEcho) + `"`
	for raw, want := range map[string][]any{
		`{"type":"step"}`:                      {"data"},
		`{"type":"state","data":1}`:            {"data"},
		`{"type":"reset","more":` + long + `}`: {"more"},
		`{"type":"step","data":` + long + `}`:  {"data"},
		`[1]`:                                  {},
	} {
		_, fault := DecodeMessage([]byte(raw))
		if fault == nil || len(fault.Errors) != 1 {
			t.Errorf("%.50s: fault %+v", raw, fault)
			continue
		}
		if diff := cmp.Diff(want, fault.Errors[0].Loc); diff != "" {
			t.Errorf("%.50s: (-want +got)\n%s", raw, diff)
		}
		if len(fault.Errors[0].Input) > maxEcho {
			t.Errorf("%.50s: the error repeats %d bytes", raw, len(fault.Errors[0].Input))
		}
	}
}

// For every input there is no panic, and the result is either a message whose data is an object, or
// an error that can be encoded.
func FuzzDecodeMessage(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"type":"reset"}`, `{"type":"step","data":{"kind":"say"}}`,
		`{"type":"state","data":null}`, `{"type":"close","x":1}`,
		`{"type":"reset","data":{"seed":1e400,"run":"u","shard":0,"episode":-1}}`, `{"type":"\ud800"}`, "\xff",
		`{"type":{"type":"step"}}`,
		`{"type":"reset","data":{"note":NaN,"x":"NaN\\"","csenv":{"seed":1,"x":2}}}`, `{"type":"step","data":{"a":NaN}}`,
		`{"type":"reset","data":{"seed":"99999999999999999999999","task":7,"reward_mode":"x"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, fault := DecodeMessage(raw)
		var out bytes.Buffer
		if fault != nil {
			WriteError(&out, *fault)
			if !json.Valid(out.Bytes()) {
				t.Errorf("%q is answered with %s", raw, out.Bytes())
			}
			return
		}
		if len(m.Data) > 0 && (m.Data[0] != '{' || !json.Valid(m.Data)) {
			t.Errorf("%q has the data %q", raw, m.Data)
		}
		if m.Kind == ResetMessage {
			o, items := ParseReset(m.Data, LenientSeed, "data")
			if o.Seed < 0 || o.Seed >= 1<<53 {
				t.Errorf("%q has the seed %d", raw, o.Seed)
			}
			WriteError(&out, *validationError(items))
			if !json.Valid(out.Bytes()) {
				t.Errorf("%q is answered with %s", raw, out.Bytes())
			}
		}
	})
}

// The fast path for steps accepts only data that the full decoder accepts, with the same result.
func TestStepData(t *testing.T) {
	for raw, want := range map[string]string{
		`{"type":"step","data":{"a":1}}`:                `{"a":1}`,
		`{"type": "step", "data": {"a": [1, "}"]}}`:     `{"a": [1, "}"]}`,
		` { "type" : "step" , "data" : {} }`:            `{}`,
		"{\n\t\"type\": \"step\",\r\n\t\"data\": {}\n}": `{}`,
		`{"type":"step","data":{"a":1},"data":{}}`:      "",
		`{"type":"step","data":{"a":1},"b":{}}`:         "",
		`{"type":"step","data":{"a":1,"a":2}}`:          `{"a":1,"a":2}`,
		`{"type":"step","data":{"a":1}`:                 "",
		`{"type":"step","data":[1]}`:                    "",
		`{"type":"step","data":{"a":"` + "\xff" + `"}}`: "",
		`{"type":"steps","data":{}}`:                    "",
		`{"type":"step"}`:                               "",
		`{"type":"step","data":}`:                       "",
		`{"type":"step","data":`:                        "",
		``:                                              "",
	} {
		if got := string(stepData([]byte(raw))); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func FuzzStepData(f *testing.F) {
	f.Add([]byte(`{"type":"step","data":{"kind":"say","text":"Dear Zoë, I am sorry about the double charge."}}`))
	f.Add([]byte(`{"type": "step", "data": {"a": {"b": "}"}}}`))
	f.Add([]byte("{\"type\":\"step\",\"data\":{}\n}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		data := stepData(raw)
		if data == nil {
			return
		}
		var kind, full jsontext.Value
		members, err := object.Read(raw, object.Unique)
		extra := members.Take(map[string]*jsontext.Value{"type": &kind, "data": &full})
		if err != nil || string(kind) != `"step"` || string(full) != string(data) || len(extra) != 0 {
			t.Errorf("%q: %q in short, %q %q %v in full", raw, data, kind, full, err)
		}
	})
}

// The number of an object's members is bounded during decoding, and so is the answer.
func TestManyMembers(t *testing.T) {
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `,"k%d":0`, i)
	}
	for raw, code := range map[string]string{
		`{"type":"state"` + many.String() + `}`:                           CodeValidation,
		`{"type":"step","data":{}` + many.String() + `}`:                  CodeValidation,
		`{"type":"state"` + many.String()[:len(`,"k0":0`)*10] + `}`:       CodeValidation,
		`{"type":"reset","data":{"row":{"a":0` + many.String() + `}}}`:    "",
		`{"` + strings.Repeat("x", 1<<20) + `":0,"type":"reset","a":[[]}`: CodeInvalidJSON,
		`{"` + strings.Repeat("é", 1<<20) + `":0,"type":"reset"}`:         CodeValidation,
	} {
		allocated := testing.AllocsPerRun(1, func() { _, _ = DecodeMessage([]byte(raw)) })
		_, fault := DecodeMessage([]byte(raw))
		if fault == nil {
			fault = &Error{}
		}
		var out bytes.Buffer
		WriteError(&out, *fault)
		if fault.Code != code || len(fault.Errors) > episode.MaxErrorItems || out.Len() > 16<<10 || allocated > 500 {
			t.Errorf("%.60s: %s, %d faults, %d bytes, %.0f allocations", raw, fault.Code, len(fault.Errors), out.Len(),
				allocated)
		}
	}
	_, items := ParseReset([]byte(`{"seed":1`+many.String()+`}`), LenientSeed, "data")
	if len(items) != 1 {
		t.Errorf("a reset with many members: %v", items)
	}
}
