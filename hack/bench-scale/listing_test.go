package main

import (
	"os"
	"strings"
	"testing"
)

// The files of the checkout have the lines that the page is listed after, and get its line once.
func TestListings(t *testing.T) {
	for _, l := range listings {
		text, err := os.ReadFile("../../" + l.path)
		if err != nil {
			t.Fatal(err)
		}
		once, err := l.in(string(text))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(once, l.line+"\n"); n != 1 {
			t.Errorf("%s lists the page %d times", l.path, n)
		}
		twice, err := l.in(once)
		if err != nil || twice != once {
			t.Errorf("%s changes again: %v", l.path, err)
		}
	}
	if _, err := listings[1].in("nav:\n"); err == nil {
		t.Error("no error for a navigation without the benchmark")
	}
}
