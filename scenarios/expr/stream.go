package expr

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Stream is the sequence of random numbers of one variable: SplitMix64 (Steele, Lea and Flood,
// "Fast splittable pseudorandom number generators", OOPSLA 2014), whose state starts as the first 8
// bytes, big-endian, of
//
//	sha256(text(salt) ‖ text(scenario) ‖ uint64(version) ‖ uint64(seed) ‖ text(variable))
//
// where uint64 is 8 bytes big-endian, and text is the uint64 of its length in bytes, then the
// bytes. Each variable has a stream of its own, so that a new variable moves no other. The test
// vectors are in stream_test.go.
type Stream struct {
	state uint64
}

// StreamKey is the common part of all streams of one instance: the encoding up to the variable's
// name.
type StreamKey string

// NewStreamKey encodes the values on which the streams of an instance depend.
func NewStreamKey(salt, scenario string, version int, seed int64) StreamKey {
	b := appendText(make([]byte, 0, 32+len(salt)+len(scenario)), salt)
	b = appendText(b, scenario)
	b = binary.BigEndian.AppendUint64(b, uint64(version)) //nolint:gosec // the bits count
	b = binary.BigEndian.AppendUint64(b, uint64(seed))    //nolint:gosec // the bits count
	return StreamKey(b)
}

func appendText(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// Stream returns the stream of a variable.
func (k StreamKey) Stream(variable string) *Stream {
	var buf [256]byte
	sum := sha256.Sum256(appendText(append(buf[:0], k...), variable))
	return &Stream{state: binary.BigEndian.Uint64(sum[:8])}
}

func (s *Stream) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Below returns a uniform number in [0, n), n > 0. It takes the high word of next·n and redraws
// while the low word is under 2^64 mod n (Lemire, "Fast random integer generation in an interval",
// 2019), so that all numbers are equally likely.
func (s *Stream) Below(n uint64) uint64 {
	threshold := -n % n
	for {
		hi, lo := bits.Mul64(s.next(), n)
		if lo >= threshold {
			return hi
		}
	}
}
