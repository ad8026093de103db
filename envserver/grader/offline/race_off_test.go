//go:build !race

package offline

// raced reports that the race detector is on: tests that judge thousands of replies judge a part of
// them.
const raced = false
