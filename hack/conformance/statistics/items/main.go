// Command items reads responses as JSON from standard input and prints csenv's item parameters and
// abilities for them. The suite compares these with independent computations.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/csenv/csenv/envserver/score/irt"
)

// input has the passed and all trials of each person and item.
type input struct {
	Model     irt.Model    `json:"model"`
	Responses [][][2]int64 `json:"responses"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for in.More() {
		var given input
		if err := in.Decode(&given); err != nil {
			return err
		}
		counts := make([][]irt.Count, len(given.Responses))
		for p, row := range given.Responses {
			for _, c := range row {
				counts[p] = append(counts[p], irt.Count{Passed: c[0], Trials: c[1]})
			}
		}
		fit, err := irt.Estimate(given.Model, counts)
		if err != nil {
			return err
		}
		if err := out.Encode(fit); err != nil {
			return err
		}
	}
	return nil
}
