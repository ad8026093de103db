// Command dump prints cases of the built-in catalogue with the decisions of package desk, one JSON
// object a line. The suite compares these decisions with an independent implementation.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"time"

	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/cases"
	"github.com/csenv/csenv/scenarios/desk"
)

const (
	// modifiers is how many modifiers a family is combined with at most.
	modifiers = 2
	// seeds is how many cases are drawn of each combination.
	seeds = 2
	salt  = "conformance"
)

// line is a case. Amounts of the policy are in cents, all others in dollars.
type line struct {
	ID       string           `json:"id"`
	Seed     int64            `json:"seed"`
	Talks    bool             `json:"talks"`
	Now      time.Time        `json:"now"`
	Policy   map[string]int64 `json:"policy"`
	Records  desk.Records     `json:"records"`
	Requests []desk.Request   `json:"requests"`
	Decision desk.Decision    `json:"decision"`
}

func main() {
	if err := dumpCases(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func dumpCases() error {
	catalog, err := scenarios.LoadPublic()
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(out)
	for composition := range catalog.CaseSet().All(modifiers, "en") {
		for seed := range int64(seeds) {
			composition.Talks = seed%2 == 1 // by rules of their own besides
			drawn, err := composition.Instantiate(salt, seed)
			if err != nil {
				return err
			}
			if err := encoder.Encode(lineOf(composition, seed, drawn)); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

func lineOf(composition *cases.Composition, seed int64, drawn *cases.Case) line {
	return line{ID: composition.Key(), Seed: seed, Talks: composition.Talks, Now: drawn.Now,
		Policy: policyNumbers(drawn.Policy), Records: drawn.Records, Requests: drawn.Requests, Decision: drawn.Decision}
}

var number = regexp.MustCompile(`\{\{(\w+)\}\}`)

// policyNumbers returns the numbers of the policy by their names in its document.
func policyNumbers(policy *desk.Policy) map[string]int64 {
	out := map[string]int64{}
	for _, match := range number.FindAllStringSubmatch(desk.PolicyDocument(), -1) {
		out[match[1]], _ = policy.Number(match[1])
	}
	return out
}
