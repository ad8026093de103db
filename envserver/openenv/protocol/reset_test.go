package protocol

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/envserver/score"
)

func TestParseOptions(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want episode.Options
		tag  *RunTag
	}{
		"everything": {
			data: `{"seed":7,"episode_id":"E","task":"talk","scenario":"E01","reward_mode":"Terminal","pressure":true}`,
			want: episode.Options{Seed: 7, EpisodeID: "E", Task: "talk", Scenario: "E01", RewardMode: episode.Terminal,
				Pressure: true},
		},
		"task_id is an alias": {data: `{"seed":0,"episode_id":"E","task_id":"E02"}`,
			want: episode.Options{EpisodeID: "E", Scenario: "E02"}},
		"scenario wins": {data: `{"seed":0,"episode_id":"E","task_id":"E02","scenario":"E01"}`,
			want: episode.Options{EpisodeID: "E", Scenario: "E01"}},
		"nulls and a row of a data set": {
			data: `{"seed":0,"episode_id":"E","task":null,"scenario":null,"reward_mode":null,"pressure":null,"run":null,"prompt":[{"role":"user","content":"x"}],"Seed":9}`,
			want: episode.Options{EpisodeID: "E"},
		},
		"a run": {
			data: `{"seed":1,"episode_id":"E","run":"uid-1","shard":2,"episode":"30","pass_score":900000}`,
			want: episode.Options{Seed: 1, EpisodeID: "E"}, tag: &RunTag{Run: "uid-1", Shard: 2, Episode: 30,
				PassScore: 900_000},
		},
		"a run with the default pass score": {
			data: `{"seed":1,"episode_id":"E","run":"uid-1","shard":0.0,"episode":0}`,
			want: episode.Options{Seed: 1, EpisodeID: "E"}, tag: &RunTag{Run: "uid-1", PassScore: 800_000},
		},
		"a trainer's run": {data: `{"seed":0,"episode_id":"E","run":"grpo-7","pass_score":"x"}`,
			want: episode.Options{EpisodeID: "E"}, tag: &RunTag{Run: "grpo-7", Rollout: true}},
		"one of another namespace": {data: `{"seed":0,"episode_id":"E","run":"7-team/grpo-7","shard":null}`,
			want: episode.Options{EpisodeID: "E"}, tag: &RunTag{Run: "7-team/grpo-7", Rollout: true}},
		"columns of a data set with types that no option has": {
			data: `{"seed":3,"episode_id":12,"task":7,"task_id":12,"scenario":[1],"split":3,"index":"x","reward_mode":1,` +
				`"pressure":0.5,"run":17,"shard":{},"episode":"x"}`,
			want: episode.Options{Seed: 3, EpisodeID: "12"}},
		"texts of a URL": {data: `{"seed":"3","episode_id":"E","pressure":"True"}`,
			want: episode.Options{Seed: 3, EpisodeID: "E", Pressure: true}},
		"the namespace": {
			data: `{"seed":3,"episode_id":"E","task":"math","split":"eval","reward_mode":"sparse","run":"My run",` +
				`"csenv":{"task":"talk","pressure":true}}`,
			want: episode.Options{Seed: 3, EpisodeID: "E", Task: "talk", Pressure: true}},
		"an empty namespace": {data: `{"seed":"3.5","episode_id":"E","task":"math","csenv":{}}`,
			want: episode.Options{Seed: hashedSeed([]byte(`"3.5"`)), EpisodeID: "E"}},
		"the namespace's seed": {data: `{"seed":"x","episode_id":"E","csenv":{"seed":4,"episode_id":"F"}}`,
			want: episode.Options{Seed: 4, EpisodeID: "F"}},
		"null is no namespace": {data: `{"seed":3,"episode_id":"E","task":"talk","csenv":null}`,
			want: episode.Options{Seed: 3, EpisodeID: "E", Task: "talk"}},
		"a shard without a run means nothing": {data: `{"seed":1,"episode_id":"E","shard":"x"}`,
			want: episode.Options{Seed: 1, EpisodeID: "E"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, items := ParseReset([]byte(c.data), LenientSeed, "data")
			if len(items) > 0 {
				t.Fatalf("faults %+v", items)
			}
			if diff := cmp.Diff(c.want, got.Options); diff != "" {
				t.Errorf("options (-want +got)\n%s", diff)
			}
			if diff := cmp.Diff(c.tag, got.Tag); diff != "" {
				t.Errorf("tag (-want +got)\n%s", diff)
			}
		})
	}
}

func TestParseOptionsFaults(t *testing.T) {
	for data, want := range map[string][]string{
		`{"task":"math","tasks":1,"` + strings.Repeat("x", 99) + `":2}`: {"extra_forbidden tasks",
			"extra_forbidden " + strings.Repeat("x", 64) + "…"},
		`[1]`:            {"dict_type csenv"},
		`7`:              {"dict_type csenv"},
		`{"seed":1.5}`:   {"int_parsing seed"},
		`{"seed":"x"}`:   {"int_parsing seed"},
		`{"pressure":1}`: {"bool_parsing pressure"},
		`{"seed":""}`:    {"int_parsing seed"},
		`{"seed":"1.0"}`: {"int_parsing seed"},
		`{"seed":[1]}`:   {"int_parsing seed"},
		`{"seed":1e999}`: {"int_parsing seed"},
		`{"seed":` + strings.Repeat("9", 5000) + `}`:        {"int_parsing seed"},
		`{"episode_id":7}`:                                  {"string_type episode_id"},
		`{"episode_id":"` + strings.Repeat("é", 256) + `"}`: {"string_too_long episode_id"},
		`{"task":["talk"],"scenario":{}}`:                   {"string_type task", "string_type scenario"},
		`{"reward_mode":"sparse"}`:                          {"literal_error reward_mode"},
		`{"run":"u","shard":0}`:                             {"missing episode"},
		`{"run":"u","episode":0}`:                           {"missing shard"},
		`{"run":"GRPO"}`:                                    {"value_error run"},
		`{"run":""}`:                                        {"value_error run"},
		`{"run":7}`:                                         {"string_type run"},
		`{"run":"a/b/c"}`:                                   {"value_error run"},
		`{"run":"` + strings.Repeat("r", 51) + `"}`:         {"value_error run"},
		`{"run":"` + strings.Repeat("n", 64) + `/r"}`:       {"value_error run"},
		`{"run":"0b2c9f1e-7f9e-4b7e-9a63-1f0f3a1f2d10"}`:    {"value_error run"},
		`{"run":"u","shard":-1,"episode":3000000000,"pass_score":1000001}`: {"int_parsing shard",
			"int_parsing episode", "int_parsing pass_score"},
		`{"run":"` + strings.Repeat("u", MaxRunID+1) + `","shard":0,"episode":0}`: {"value_error run"},
	} {
		_, items := ParseReset([]byte(`{"csenv":`+data+`}`), LenientSeed, "data")
		var got []string
		for _, item := range items {
			got = append(got, item.Type+" "+item.Loc[len(item.Loc)-1].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%.80s: (-want +got)\n%s", data, diff)
		}
	}
}

// Outside the namespace texts are refused that the option never has, and the refusal says how to
// send them as columns of a data set.
func TestFlatOptionsFaults(t *testing.T) {
	for data, want := range map[string]string{
		`{"reward_mode":"sparse"}`: "reward_mode", `{"run":"GRPO"}`: "run", `{"run":"u","shard":0}`: "episode",
		`{"split":"train","index":"x"}`: "index", `{"seed":[1]}`: "seed",
	} {
		_, items := ParseReset([]byte(data), LenientSeed, "data")
		if len(items) != 1 || items[0].Loc[1] != want ||
			strings.Contains(items[0].Msg, `add "csenv": {} to the reset`) != (want != "seed") {
			t.Errorf("%s: %v", data, items)
		}
	}
}

// A member that may be a misspelt option is refused, unless the option is there too. Others are
// named.
func TestMisspeltOptions(t *testing.T) {
	for data, want := range map[string]string{
		`{"spilt":"public-train"}`: "split", `{"Split":"x"}`: "split", `{"sed":1}`: "", `{"seeds":1}`: "seed",
		`{"rewardMode":"dense"}`: "reward_mode", `{"reward_mod":"dense"}`: "reward_mode", `{"taks":"talk"}`: "task",
		`{"scenarios":"B01"}`: "scenario", `{"taskid":"B01"}`: "task_id", `{"task":"talk","tasks":1}`: "",
		`{"mask":[1],"runs":1,"difficulty":"hard","prompt":"x","answer":"y","need":1,"":1,"é":1}`: "",
	} {
		o, items := ParseReset([]byte(data), LenientSeed, "data")
		if (len(items) == 0) != (want == "") || want != "" && !strings.Contains(items[0].Msg, "did you mean \""+want+"\"?") {
			t.Errorf("%s: %+v", data, items)
		}
		if want == "" && len(o.Ignored) == 0 {
			t.Errorf("%s: nothing is named", data)
		}
	}
	o, _ := ParseReset([]byte(`{"csenv":null,"b":1,"difficulty":"hard"}`), LenientSeed, "data")
	if diff := cmp.Diff([]string{"b", "difficulty"}, o.Ignored); diff != "" {
		t.Error(diff)
	}
	var many strings.Builder
	for i := range 40 {
		fmt.Fprintf(&many, `"column %d":1,`, i)
	}
	if o, _ = ParseReset([]byte("{"+many.String()+`"z":1}`), LenientSeed, "data"); len(o.Ignored) != maxIgnored {
		t.Errorf("%d names", len(o.Ignored))
	}
}

// Over a WebSocket every number and text is a seed, as in Python's random.seed.
func TestSeedsThatAreNoIntegers(t *testing.T) {
	seeds := map[int64]string{}
	for _, value := range []string{`1.5`, `"x"`, `""`, `"1.0e5x"`, `1e999`, `"NaN"`, strings.Repeat("9", 5000)} {
		o, items := ParseReset([]byte(`{"seed":`+value+`}`), LenientSeed, "data")
		again, _ := ParseReset([]byte(`{"seed":`+value+`}`), LenientSeed, "data")
		if len(items) > 0 || o.Seed != again.Seed || o.Seed < 0 || o.Seed > score.MaxSeed || seeds[o.Seed] != "" {
			t.Errorf("seed %.20s: %d and %d, %v", value, o.Seed, again.Seed, items)
		}
		seeds[o.Seed] = value
		if _, items := ParseReset([]byte(`{"seed":`+value+`}`), StrictSeed, "body"); len(items) != 1 {
			t.Errorf("plain HTTP takes the seed %.20s", value)
		}
	}
	for value, want := range map[string]int64{`true`: 1, `false`: 0, `1.50`: hashedSeed([]byte(`1.5`))} {
		if o, items := ParseReset([]byte(`{"seed":`+value+`}`), LenientSeed, "data"); o.Seed != want || len(items) > 0 {
			t.Errorf("seed %s is %d, want %d: %v", value, o.Seed, want, items)
		}
	}
}

func TestSeeds(t *testing.T) {
	for value, want := range map[string]int64{
		`0`: 0, `7`: 7, `7.0`: 7, `1e3`: 1000, `"7"`: 7, `" 7 "`: 7, `"007"`: 7, `-0`: 0,
		`9007199254740991`: score.MaxSeed, `9007199254740992`: 0, `9007199254740999`: 7, `-1`: score.MaxSeed,
		`"-2"`:                 score.MaxSeed - 1,
		`18446744073709551616`: 0, `1e300`: 0,
	} {
		o, items := ParseReset([]byte(`{"seed":`+value+`}`), LenientSeed, "data")
		if len(items) > 0 || o.Seed != want {
			t.Errorf("seed %s is read as %d, faults %v; want %d", value, o.Seed, items, want)
		}
	}
	if _, items := ParseReset([]byte(`{"seed":-1}`), StrictSeed, "body"); len(items) != 1 ||
		items[0].Type != "greater_than_equal" {
		t.Errorf("plain HTTP accepts a negative seed: %v", items)
	}
}

func TestDrawnOptions(t *testing.T) {
	first, _ := ParseReset(nil, LenientSeed, "data")
	second, _ := ParseReset([]byte(`{"seed":null,"episode_id":null}`), LenientSeed, "data")
	if first.Seed == second.Seed || first.EpisodeID == second.EpisodeID {
		t.Errorf("drawn twice: %+v, %+v", first.Options, second.Options)
	}
	if _, err := uuid.Parse(first.EpisodeID); err != nil {
		t.Errorf("episode id %q: %v", first.EpisodeID, err)
	}
}

// A seed of any size equals its remainder modulo 2^53, as a number and as a string.
func TestSeedsModulo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`-?[1-9][0-9]{0,60}`).Draw(t, "digits")
		n, _ := new(big.Int).SetString(digits, 10)
		want := n.Mod(n, big.NewInt(1<<53)).Int64()
		for _, value := range []string{digits, `"` + digits + `"`} {
			if o, items := ParseReset([]byte(`{"seed":`+value+`}`), LenientSeed, "data"); o.Seed != want ||
				len(items) > 0 {
				t.Fatalf("seed %s is read as %d, want %d", value, o.Seed, want)
			}
		}
	})
}
