package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
	"github.com/csenv/csenv/envserver/testkit/echo"
	"github.com/csenv/csenv/envserver/testkit/wire"
)

func TestAppendFixed(t *testing.T) {
	for _, c := range []struct {
		v      int64
		places int
		want   string
	}{
		{0, 3, "0.0"}, {200, 3, "0.2"}, {-20, 3, "-0.02"}, {1000, 3, "1.0"}, {1234, 3, "1.234"}, {-1500, 3, "-1.5"},
		{10, 3, "0.01"},
		{850_000, 6, "0.85"}, {666_667, 6, "0.666667"}, {1_000_000, 6, "1.0"},
		{math.MinInt64, 3, "-9223372036854775.808"},
	} {
		if got := string(appendFixed(nil, c.v, c.places)); got != c.want {
			t.Errorf("%d/10^%d is written as %s, want %s", c.v, c.places, got, c.want)
		}
	}
}

func TestAppendFixedIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "v")
		text := string(appendFixed(nil, v, 3))
		got, ok := new(big.Rat).SetString(text)
		if want := big.NewRat(v, 1000); !ok || got.Cmp(want) != 0 || !json.Valid([]byte(text)) {
			t.Fatalf("%d/1000 is written as %s", v, text)
		}
	})
}

func TestErroredEpisodeHasNoScore(t *testing.T) {
	var out bytes.Buffer
	result := episode.Result{Observation: struct{}{}, Done: true, Final: &episode.Final{
		Outcome: score.Errored, Score: 500_000, Dimensions: []score.Dimension{{Name: "talk"}}, Judge: "rules",
		Cause:    "judge_timeout",
		Verdicts: []json.RawMessage{json.RawMessage(`{}`)},
	}}
	if err := WriteResult(&out, echo.Kind{}, result); err != nil {
		t.Fatal(err)
	}
	metadata := `{"outcome":"errored","judge":"rules","scenario_digest":"sha256:00ff","grader_version":"echo.1","cause":"judge_timeout"}`
	if want := `{"observation":{"metadata":` + metadata + `},"reward":null,"done":true,"metadata":` + metadata +
		`}`; out.String() != want {
		t.Errorf("got  %s\nwant %s", out.String(), want)
	}
}

func TestLongErrorIsCut(t *testing.T) {
	var out bytes.Buffer
	WriteError(&out, Error{Code: CodeExecution, Message: strings.Repeat("é", maxErrorText)})
	if out.Len() > maxErrorText+100 || !json.Valid(out.Bytes()) || strings.Contains(out.String(), "\ufffd") {
		t.Errorf("%d bytes: %.40s…", out.Len(), out.String())
	}
}

func TestErrorItemWithBadInputIsStillSent(t *testing.T) {
	var out bytes.Buffer
	WriteError(&out, *validationError([]episode.ErrorItem{
		{Type: "x", Loc: []any{"y"}, Msg: "z", Input: json.RawMessage(`{`)}}))
	if got := wire.CodeOf(t, out.String()); got != CodeValidation {
		t.Errorf("sent %s", out.String())
	}
}

// What an environment says about its files is in no answer.
func TestInstanceErrorsNameNoFiles(t *testing.T) {
	err := fmt.Errorf("reset: %w", &episode.InstanceError{Scenario: "S06", Seed: 7,
		Err: errors.New("/var/secret/tickets/S06.yaml: no draw satisfied the constraints")})
	got := PlayError(err)
	want := Error{Code: CodeExecution, Message: "scenario S06 can't be drawn with seed 7: send another seed"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
