package main

import (
	"bytes"
	"regexp"
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
