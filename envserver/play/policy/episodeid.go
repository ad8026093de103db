package policy

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"

	"github.com/csenv/csenv/envserver/score"
)

// EpisodeID returns an id and a number for an episode, which agents receive: a program the id, a
// model the number as its seed. They depend only on the key and the episode's seed, so a run's are
// the same however often it is played. Without the key of a run, which poolkey.IDKey derives, they
// tell nothing of the episode: an agent that played it in another run does not recognise it.
func EpisodeID(idKey string, planned score.PlannedEpisode) (string, int64) {
	mac := hmac.New(sha256.New, []byte(idKey))
	_, _ = fmt.Fprintf(mac, "csenv agent\n%d", planned.Seed) // never fails
	sum := mac.Sum(nil)
	// Many endpoints accept seeds of 32 bits only.
	return base32.StdEncoding.EncodeToString(sum[:15]), int64(binary.BigEndian.Uint32(sum) >> 1)
}
