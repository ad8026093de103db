package faults

import (
	"fmt"
	"strings"
	"sync"

	core "k8s.io/api/core/v1" // want `imported as "core" but must be "corev1".*\(importas\)`

	"github.com/csenv/csenv/api"
	_ "github.com/csenv/csenv/envserver/score" // It has tests, so this is the package without them.
)

type pair struct {
	sync.Mutex
	a int `json:a` // want `struct field tag .* not compatible.*\(govet\)`
	b int // want `field b is unused \(unused\)`
}

func (p pair) sum() int { // want `sum passes lock by value.*\(govet\)`
	return p.a
}

func unused() {} // want `func unused is unused \(unused\)`

func Undocumented(p *pair) int { // want `exported function Undocumented should have comment.*\(revive\)`
	if p == nil {
		return p.a // want `nil dereference.*\(govet\)`
	}
	return p.sum()
}

// Code is bad code.
func Code(phase api.Phase, n int64, names []string) {
	_ = core.Pod{"pod", "default"} // want `struct literal uses unkeyed fields \(govet\)`
	core.Old()                     // want `v1.Old is deprecated.*\(staticcheck\)`
	fmt.Printf("%d\n", "text")     // want `format %d has arg "text" of wrong type string \(govet\)` `\(staticcheck\)`
	logf("%d", "text")             // want `format %d has arg "text" of wrong type string \(govet\)`
	fmt.Println(int64(n))          // want `unnecessary conversion \(unconvert\)`
	switch phase {                 // want `missing cases in expression switch: api.Done \(exhaustive\)`
	case api.Pending:
	}
	x := 1 // want `ineffectual assignment to x \(ineffassign\)`
	x = 2
	fmt.Println(x)
	for _, name := range names {
		name := name // want `\(modernize\)`
		fmt.Println(name)
	}
	if strings.Index("text", "t") != -1 { // want `should use strings.Contains.* \(staticcheck\)`
		return
		fmt.Println() // want `unreachable code \(govet\)`
	}
	noDirective()
	fmt.Sprint(n) // want `result of fmt.Sprint call not used \(govet\)`
}

func logf(format string, args ...any) { fmt.Printf(format, args...) }

// noDirective has a comment that only looks like a directive.
//
// go:noinline // want `ineffectual compiler directive`
func noDirective() {}
