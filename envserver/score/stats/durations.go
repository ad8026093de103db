package stats

import (
	"encoding/base64"
	"fmt"

	"github.com/csenv/csenv/envserver/score/bitstream"
)

// durationBins is two per power of two: bin i contains the durations from 2^(i/2) up to 2^((i+1)/2)
// milliseconds. The first bin also contains shorter ones, and the last one (from about three hours)
// also longer ones.
const durationBins = 48

// maxCount bounds the count of a bin.
const maxCount = 1 << 31

// Durations is a histogram of durations with bins of equal width on a logarithmic scale, so that a
// quantile is off by at most a factor of the square root of two.
type Durations struct {
	bins [durationBins]int64
}

// Observe counts a duration in milliseconds.
func (d *Durations) Observe(milliseconds int64) { d.bins[durationBin(milliseconds)]++ }

func durationBin(ms int64) int {
	if ms < 1 {
		return 0
	}
	octave := bitstream.BitWidth(ms) - 1
	if 2*octave >= durationBins {
		return durationBins - 1
	}
	if ms*ms >= 1<<(2*octave+1) {
		return 2*octave + 1
	}
	return 2 * octave
}

// Merge adds another histogram.
func (d *Durations) Merge(o Durations) {
	for i, n := range o.bins {
		d.bins[i] += n
	}
}

// Count is the number of durations.
func (d Durations) Count() int64 {
	var n int64
	for _, c := range d.bins {
		n += c
	}
	return n
}

// Quantile returns the upper edge, in milliseconds, of the bin with the given quantile: 0.99 for
// the 99th percentile. It is 0 without durations.
func (d Durations) Quantile(q float64) int64 {
	rank := int64(q * float64(d.Count()))
	for i, n := range d.bins {
		if rank < n || (rank == n && n > 0) {
			return upperEdge(i)
		}
		rank -= n
	}
	return 0
}

// upperEdge is the floor of 2^((i+1)/2).
func upperEdge(i int) int64 {
	edge := int64(1) << ((i + 1) / 2)
	if (i+1)%2 == 1 {
		edge = edge * 1_414_213_562 / 1_000_000_000
	}
	return edge
}

// Equal reports whether two histograms are the same.
func (d Durations) Equal(o Durations) bool { return d == o }

// Code describes the encoding of all bins.
func (d *Durations) Code(s *bitstream.Stream) { s.Column(d.bins[:]) }

// codeUsed describes the encoding of the bins up to the last one that is used.
func (d *Durations) codeUsed(s *bitstream.Stream) {
	used := int64(durationBins)
	for used > 0 && d.bins[used-1] == 0 {
		used--
	}
	if s.Bits(&used, 6); used > durationBins {
		s.Failf("too many bins")
		return
	}
	s.Column(d.bins[:used])
}

// MarshalText writes the histogram in base64, "" when it is empty.
func (d Durations) MarshalText() ([]byte, error) {
	if d == (Durations{}) {
		return []byte{}, nil
	}
	return []byte(base64.RawStdEncoding.EncodeToString(bitstream.EncodeBare(d.codeUsed))), nil
}

// UnmarshalText reads what MarshalText wrote.
func (d *Durations) UnmarshalText(text []byte) error {
	*d = Durations{}
	if len(text) == 0 {
		return nil
	}
	raw, err := base64.RawStdEncoding.Strict().DecodeString(string(text))
	if err == nil {
		err = bitstream.DecodeBare(raw, d.codeUsed)
	}
	if err != nil {
		return fmt.Errorf("decoding durations: %w", err)
	}
	for _, n := range d.bins {
		if n > maxCount {
			return fmt.Errorf("decoding durations: a bin counts %d", n)
		}
	}
	return nil
}
