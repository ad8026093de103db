package episode

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
)

// Draw picks one of n choices by the seed, evenly and the same in every process.
func Draw(seed int64, n int) int {
	//nolint:gosec // The length of a list fits in any integer, and so does what is below it.
	return int(binary.BigEndian.Uint64(seeded("scenario", seed)) % uint64(n))
}

// OpaqueID is an id for the wire that is drawn from the seed alone, so that it says nothing of the
// scenario behind it: the prefix, a dash and eight characters.
func OpaqueID(prefix string, seed int64) string {
	return prefix + "-" + base32.StdEncoding.EncodeToString(seeded("id", seed)[:5])
}

func seeded(purpose string, seed int64) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "csenv %s\n%d", purpose, seed))
	return sum[:]
}
