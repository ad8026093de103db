package object

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestRead(t *testing.T) {
	full := `{"a":0` + strings.Repeat(` `, 3)
	for i := range MaxMembers - 1 {
		full += fmt.Sprintf(`,"k%d":{}`, i)
	}
	syntax := &jsontext.SyntacticError{}
	for raw, want := range map[string]struct {
		repeats Repeats
		err     error
		a       string
	}{
		`{"a":1,"a":2}`:             {LastCounts, nil, "2"},
		" " + `{"a":1,"a":2}` + " ": {Unique, ErrRepeated, ""},
		full + `}`:                  {Unique, nil, "0"},
		full + `,"b":0,`:            {Unique, ErrTooMany, ""}, // the rest isn't read
		`[1]`:                       {Unique, ErrNoObject, ""},
		`null`:                      {Unique, ErrNoObject, ""},
		`{"a":{"b":1,"b":`:          {Unique, syntax, ""},
		`{"a":1}x`:                  {Unique, syntax, ""},
		`[1`:                        {Unique, syntax, ""},
		``:                          {Unique, syntax, ""},
	} {
		o, err := Read([]byte(raw), want.repeats)
		isSyntax := false
		if errors.Is(want.err, syntax) {
			_, isSyntax = errors.AsType[*jsontext.SyntacticError](err)
			isSyntax = isSyntax || err != nil // the end of the text
		}
		if !isSyntax && !errors.Is(err, want.err) || string(o.Get("a")) != want.a {
			t.Errorf("%.30s: %v %v", raw, o, err)
		}
	}
}

// The used memory is proportional to the decoded members, not to the text.
func TestReadsFewMembers(t *testing.T) {
	raw := []byte(`{"a":{"x":0` + strings.Repeat(`,"x":{"y":[]}`, 100_000) + `}` + strings.Repeat(`,"b":1`, 100_000) + `}`)
	if n := testing.AllocsPerRun(2, func() { _, _ = Read(raw, Unique) }); n > 50 {
		t.Errorf("%.0f allocations", n)
	}
	if n := testing.AllocsPerRun(2, func() { _, _ = Read(raw[5:], LastCounts) }); n > 100_050 {
		t.Errorf("%.0f allocations", n)
	}
}

func TestShown(t *testing.T) {
	for name, want := range map[string]string{"a": "a", strings.Repeat("é", 40): strings.Repeat("é", 32) + "…",
		"x" + strings.Repeat("é", 40): "x" + strings.Repeat("é", 31) + "…"} {
		if got := ClipName(name); got != want {
			t.Errorf("%q is shown as %q", name, got)
		}
	}
}

// Large texts are decoded in turns, and small ones don't wait for them.
func TestLargeTextsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := processors
		defer func() { processors = shared }()
		processors = make(chan struct{}, 1)
		large := []byte(`{"a":"` + strings.Repeat("x", Large) + `"}`)
		release := AcquireScanSlot(len(large))
		decoded := make(chan error, 2)
		for range cap(decoded) {
			go func() {
				_, err := Read(large, Unique)
				decoded <- err
			}()
		}
		synctest.Wait()
		if len(decoded) != 0 {
			t.Errorf("%d large texts were decoded beside another one", len(decoded))
		}
		if _, err := Read([]byte(`{"a":1}`), Unique); err != nil {
			t.Error(err)
		}
		release()
		for range cap(decoded) {
			if err := <-decoded; err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzRead checks that decoded values are valid and bounded, and that every error can be encoded.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"a":{"b":[1e999]},"a":"\ud83d\ude00"}`, `[`, `{"a":NaN}`, "{\"\xff\":1}"} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, unique bool) {
		checkPlain(t, raw)
		o, err := Read(raw, Repeats(unique))
		if (o == nil) != (err != nil) || len(o) > MaxMembers {
			t.Fatalf("%q: %v %v", raw, o, err)
		}
		for _, m := range o {
			if !json.Valid(m.Value) || !utf8.ValidString(m.Name) || len(ClipName(m.Name)) > maxShown+len("…") {
				t.Errorf("%q has the member %q: %q", raw, m.Name, m.Value)
			}
		}
	})
}
