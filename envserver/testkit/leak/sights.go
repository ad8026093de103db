package leak

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/csenv/csenv/envserver/testkit"
)

// word is a text of a fixed set, such as a status.
var word = regexp.MustCompile(`^[a-z]+([_-][a-z]+)*$`)

// AddSights adds each field of a document to the sights: numbers and single words as they are,
// other texts by their length, lists by their length and their words, times by their parts.
func AddSights(out map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			AddSights(out, path+"."+name, field)
		}
	case []any:
		out[path] = fmt.Sprint(len(v))
		for _, entry := range v {
			if text, ok := entry.(string); ok && word.MatchString(text) {
				out[path] += " " + text
			}
		}
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			out[path+".hour"], out[path+".minute"] = fmt.Sprint(at.Hour()), fmt.Sprint(at.Minute())
			out[path+".day"], out[path+".month"] = fmt.Sprint(at.Day(), at.Weekday()), at.Month().String()
		} else if word.MatchString(v) {
			out[path] = v
		} else {
			out[path] = fmt.Sprint(len(v))
		}
	default:
		out[path] = fmt.Sprint(v)
	}
}

// RoundTripJSON returns a value as a client reads it.
func RoundTripJSON(tb testkit.TB, value any) any {
	tb.Helper()
	var out any
	if err := json.Unmarshal([]byte(testkit.EncodeJSON(value)), &out); err != nil {
		tb.Fatal(err)
	}
	return out
}

// quarters is the number of ranges of a number.
const quarters = 4

// AddRanges adds to each sight that is a number with many values the quarter of the instances in
// which it is, because the learner sees too few examples of each value.
func AddRanges(instances []Instance) {
	numbers := map[string][]float64{}
	for _, i := range instances {
		for sight, text := range i.Seen {
			if n, err := strconv.ParseFloat(text, 64); err == nil {
				numbers[sight] = append(numbers[sight], n)
			}
		}
	}
	for sight, all := range numbers {
		slices.Sort(all)
		if len(slices.Compact(slices.Clone(all))) <= 2*quarters {
			continue
		}
		for _, i := range instances {
			if n, err := strconv.ParseFloat(i.Seen[sight], 64); err == nil {
				place, _ := slices.BinarySearch(all, n)
				i.Seen[sight+" range"] = fmt.Sprint(place * quarters / len(all))
			}
		}
	}
}
