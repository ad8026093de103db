//go:build race

package prose

// raced reports whether the race detector is on. Tests that judge thousands of replies then judge
// only some of them.
const raced = true
