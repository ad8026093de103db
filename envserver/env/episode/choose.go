package episode

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// DrawIndex picks one of n choices by the seed, evenly and the same in every process.
func DrawIndex(seed int64, n int) int {
	//nolint:gosec // The length of a list fits in any integer, and so does what is below it.
	return int(binary.BigEndian.Uint64(hashSeed("scenario", seed)) % uint64(n))
}

// OpaqueID returns an id for the wire: the prefix, a dash and eight characters. It depends only on
// the seed and the key, so that it doesn't reveal the scenario. If the key isn't "", only those who
// have it can find the seed from an id.
func OpaqueID(prefix, key string, seed int64) string {
	drawn := hashSeed("id", seed)
	if key != "" {
		mac := hmac.New(sha256.New, []byte(key))
		_, _ = mac.Write(drawn) // never fails
		drawn = mac.Sum(nil)
	}
	return prefix + "-" + base32.StdEncoding.EncodeToString(drawn[:5])
}

func hashSeed(purpose string, seed int64) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "csenv %s\n%d", purpose, seed))
	return sum[:]
}

// ChooseTask returns the task with the name, or the first one for "". The error wraps
// ErrUnknownTask.
func ChooseTask[T any](tasks []T, name string, nameOf func(T) string) (chosen T, err error) {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = nameOf(t)
	}
	at := max(slices.Index(names, name), 0)
	if name != "" && names[at] != name {
		return chosen, fmt.Errorf("%w %q: this environment has %s", ErrUnknownTask, name, strings.Join(names, ", "))
	}
	return tasks[at], nil
}
