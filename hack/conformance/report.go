package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"
)

// report is the result of a suite.
type report struct {
	suite                   string
	passed, failed, skipped int
	took                    time.Duration
	// notes are lines for the summary, for example the reasons of skipped tests.
	notes []string
	// failure is set if the suite failed as a whole.
	failure error
}

func (r report) ok() bool { return r.failure == nil && r.failed == 0 && r.passed > 0 }

// junit is the used part of pytest's JUnit results.
type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct {
				Message string `xml:"message,attr"`
			} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func readJUnit(path string) (report, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return report{}, fmt.Errorf("reading pytest's results: %w", err)
	}
	var results junit
	if err := xml.Unmarshal(text, &results); err != nil {
		return report{}, fmt.Errorf("parsing pytest's results: %w", err)
	}
	var r report
	for _, suite := range results.Suites {
		for _, c := range suite.Cases {
			switch {
			case c.Failure != nil || c.Error != nil:
				r.failed++
				r.notes = append(r.notes, "failed: "+c.Name)
			case c.Skipped != nil:
				r.skipped++
				r.notes = append(r.notes, "skipped: "+c.Name+": "+c.Skipped.Message)
			default:
				r.passed++
			}
		}
	}
	return r, nil
}

// testLines collects the output of `go test -v`.
type testLines struct{ bytes.Buffer }

// testLine matches the result line of a test or subtest.
var testLine = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+)`)

func (l *testLines) report() report {
	var r report
	for _, found := range testLine.FindAllStringSubmatch(l.String(), -1) {
		switch found[1] {
		case "PASS":
			r.passed++
		case "FAIL":
			r.failed++
			r.notes = append(r.notes, "failed: "+found[2])
		case "SKIP":
			r.skipped++
			r.notes = append(r.notes, "skipped: "+found[2])
		}
	}
	return r
}

// summarise prints the results of all suites, and returns an error if one of them failed.
func summarise(reports []report, w io.Writer) error {
	fmt.Fprintln(w, "\n==> summary")
	var failed []string
	for _, r := range reports {
		verdict := "ok"
		if !r.ok() {
			verdict = "FAILED"
			failed = append(failed, r.suite)
		}
		fmt.Fprintf(w, "%-8s %-7s %3d passed, %d failed, %d skipped in %s\n", r.suite, verdict, r.passed, r.failed,
			r.skipped, r.took.Round(100*time.Millisecond))
		for _, note := range r.notes {
			fmt.Fprintln(w, "         "+note)
		}
		if r.failure != nil {
			fmt.Fprintln(w, "         "+strings.ReplaceAll(r.failure.Error(), "\n", "\n         "))
		}
	}
	if len(failed) > 0 {
		return errors.New("not conforming: " + strings.Join(failed, ", "))
	}
	return nil
}
