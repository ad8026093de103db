package score

import (
	"crypto/ed25519"
	"slices"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// A summary must fit into MaxSummaryBytes. So a plan has as many shards as necessary to fit its
// largest ledger, bounded below, and the summary's other parts.
const (
	// summaryFrame is the size of the JSON around the parts, and of its numbers.
	summaryFrame = 120
	// durationsText is the size in base64 of durationBins columns of 18 bits, for 144,000 episodes
	// in each of two bins.
	durationsText = 148
	// erroredText is room for six classes of errors with about thirty ranges in total.
	erroredText = 560
	// retriedText is room for ten classes with a thousand attempts each.
	retriedText = 260
	// tokensText and storedText are room for JSON with numbers of 14 digits, and a store's error.
	tokensText = 72
	storedText = 44 + MaxStoreError

	// ledgerBytes is the room for the ledger and its signature, which are sent as base64.
	ledgerBytes = (MaxSummaryBytes - summaryFrame - durationsText - erroredText - retriedText - tokensText -
		storedText) / 4 * 3
	// maxPlannedLedgerBytes is the room for the ledger if both are sealed, which takes more.
	maxPlannedLedgerBytes = ledgerBytes/sealedBlock*sealedBlock - sealedFrame - ed25519.SignatureSize
)

// Allowances for the parts of a ledger that don't follow from its plan, with a margin over the
// catalogue: eight dimensions per task, twelve names in total, and tables of three difficulties,
// six languages and as many categories as a run may have, or as there are scenarios.
const (
	allowedDimensions     = 8
	allowedDimensionNames = 12
	allowedNameLength     = 16
	allowedTableTexts     = 3 + 6
	allowedPositionBits   = 5 + 2 + 3
)

// largestLedger bounds the encoded bytes of the largest ledger of the plan's shards.
func (p Plan) largestLedger() int {
	scenarios := p.listScenarios()
	shards := make([]int, p.Shards)
	for i := range shards {
		shards[i] = p.ledgerFrame((len(scenarios) + p.Shards - 1) / p.Shards)
	}
	for j, id := range scenarios {
		shards[j%p.Shards] += p.scenarioBits(id)
	}
	return (slices.Max(shards) + 7) / 8
}

// ledgerFrame bounds the bits of a ledger of n scenarios that belong to no scenario.
func (p Plan) ledgerFrame(n int) int {
	text, number := bitstream.TextBits, bitstream.NumberBits
	frame := 8 + text(len(p.Run)) + number(int64(p.Shards)) + number(One)
	frame += 3*text(allowedNameLength*2) + 3*number(2*p.Episodes()) + 8*len(PlanDigest{})
	texts := min(n, maxCategories) + allowedTableTexts + allowedDimensionNames
	frame += number(int64(n)) + texts*text(allowedNameLength) + 7*8
	for _, t := range p.Tasks {
		episodes := int64(n) * int64(t.Trials)
		frame += text(len(t.Name)) + 2*number(One) + 6 + Bins*bitstream.BitWidth(episodes)
		frame += 8 + allowedDimensions*(8+number(2*One/1000*episodes)+number(One/1000*episodes))
		frame += number(int64(t.Trials)) + 3*6
	}
	return frame
}

// scenarioBits bounds the bits that a scenario adds to its ledger.
func (p Plan) scenarioBits(id string) int {
	n := bitstream.TextBits(len(id)) + allowedPositionBits + len(p.Tasks)
	for _, t := range p.Tasks {
		if _, selected := slices.BinarySearch(t.Scenarios, id); selected {
			n += 2*bitstream.BitWidth(int64(t.Trials)) + bitstream.BitWidth(int64(t.Trials)*One)
		}
	}
	return n
}
