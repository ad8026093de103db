package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

func sample(index int64) Episode {
	points := 0.75
	return Episode{
		Run: "7d0c", Index: index, Environment: "ticket", Task: "ticket-resolve", Scenario: "B07", Trial: 1, Seed: 42,
		RewardMode: episode.Terminal, EpisodeID: "7d0c-3-1",
		Turns: []Turn{{Action: json.RawMessage(`{"action_type":"resolve"}`), Reward: 0.75},
			{Action: json.RawMessage(`{"nonsense":true}`), Refused: "unknown field"}},
		Attempts: 2, DurationMS: 12,
		Grade: Grade{
			Outcome: score.Scored, Score: &points,
			Dimensions: []score.Dimension{{Name: "category", Earned: 150, Offered: 200}}, Judge: "offline-v2",
			GraderVersion: "v2+ticket.2", ScenarioDigest: "sha256:00",
			Verdicts: []json.RawMessage{json.RawMessage(`{"judge":"offline-v2"}`)},
		},
	}
}

func TestWriteAndRead(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file)
	var group sync.WaitGroup
	for i := range int64(50) {
		group.Go(func() {
			if err := w.Write(sample(i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	seen := map[int64]bool{}
	for e, err := range Read(&file) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample(e.Index), e); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		seen[e.Index] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d of 50 records read", len(seen))
	}
}

// The error of a broken line contains its number, and other lines are read.
func TestReadBrokenFiles(t *testing.T) {
	line := func(i int64) string {
		var b bytes.Buffer
		if err := NewWriter(&b).Write(sample(i)); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		file      string
		want      []int64
		wantError string
		truncated bool
	}{
		"empty":            {"", nil, "", false},
		"blank lines":      {"\n" + line(1) + "\n \n" + line(2), []int64{1, 2}, "", false},
		"no last newline":  {strings.TrimSuffix(line(1), "\n"), []int64{1}, "", false},
		"cut off":          {line(1) + line(2)[:60], []int64{1}, "line 2", true},
		"a line of others": {line(1) + "{\"hello\": 1}\n" + line(2), []int64{1, 2}, "line 2: not a record", false},
		"a reward mode": {strings.Replace(line(1), `"reward_mode":"`, `"reward_mode":"x`, 1) + line(2), []int64{2},
			"line 1: not a record of an episode: reward_mode is \"x", false},
		"no JSON": {"#\n" + line(2), []int64{2}, "line 1: not a record", false},
		"a line too long": {line(1) + strings.Repeat("x", MaxLine+1) + "\n" + line(2), []int64{1}, "token too long",
			false},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int64
			var failed error
			for e, err := range Read(strings.NewReader(c.file)) {
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				got = append(got, e.Index)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("records (-want +got)\n%s", diff)
			}
			if (failed != nil) != (c.wantError != "") || failed != nil &&
				!strings.Contains(failed.Error(), c.wantError) {
				t.Errorf("error %v, want %q", failed, c.wantError)
			}
			if errors.Is(failed, ErrTruncated) != c.truncated {
				t.Errorf("error %v, want a truncation or none", failed)
			}
		})
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorNamesTheEpisode(t *testing.T) {
	if err := NewWriter(fullDisk{}).Write(sample(7)); err == nil ||
		!strings.Contains(err.Error(), "episode 7: no space left") {
		t.Errorf("error %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"environment":"ticket","task":"t","scenario":"s","outcome":"scored"}` + "\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for e, err := range Read(bytes.NewReader(data)) {
			if (err == nil) != (e.Task != "") {
				t.Errorf("record %v with error %v", e, err)
			}
		}
	})
}
