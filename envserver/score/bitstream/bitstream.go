// Package bitstream encodes integers and texts as a stream of bits, most significant bit first, and
// decodes them from untrusted bytes.
//
// A type describes its encoding once, in a function that takes a [Stream] and pointers to its
// fields: a stream that encodes writes the fields, a stream that decodes fills them. Columns have a
// fixed width, so the size of a ledger is predictable from its plan, unlike with a general
// compressor, and a small input can't expand to a large one.
package bitstream

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"strings"
)

const (
	// MaxText bounds the texts that are read, in bytes.
	MaxText = 256
	// MinTextBits is the size of the shortest text.
	MinTextBits = 8
	// Alphabet has the characters of names, which take six bits each.
	Alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	// DigestPrefix begins the texts that are stored as the 32 bytes of a SHA-256.
	DigestPrefix = "sha256:"
)

// The kinds of texts.
const (
	textRaw    = iota // 8 bits a byte
	textName          // 6 bits a character of the alphabet
	textDigest        // 32 bytes of a "sha256:<hex>"
)

// Stream encodes or decodes. After the first error of a decoder, every read returns zeros.
type Stream struct {
	bytes   []byte
	pos     int // in bits
	version int64
	writing bool
	err     error
}

// Encode writes a version and the fields that code describes.
func Encode(version int64, code func(*Stream)) []byte {
	s := &Stream{writing: true, version: version}
	s.Bits(&version, 8)
	code(s)
	return s.bytes
}

// Versions are those that a release decodes. It encodes the newest.
type Versions struct{ Oldest, Newest int64 }

// VersionError means that another release encoded the data.
type VersionError struct {
	Got int64
	Versions
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("another release wrote its version %d: this release reads the versions from %d to %d", e.Got,
		e.Oldest, e.Newest)
}

// Decode decodes the result of Encode into the fields that code describes. It refuses other
// versions, fields that validate refuses, and everything but the shortest encoding, so that a
// signature covers the fields and not one of several encodings.
func Decode(data []byte, versions Versions, code func(*Stream), validate func() error) error {
	s := &Stream{bytes: data}
	if s.Bits(&s.version, 8); s.version < versions.Oldest || s.version > versions.Newest {
		return &VersionError{s.version, versions}
	}
	code(s)
	if err := errors.Join(s.end(), validate()); err != nil {
		return err
	}
	if !bytes.Equal(Encode(s.version, code), data) {
		return errors.New("not its shortest encoding")
	}
	return nil
}

// EncodeBare writes the fields that code describes, without a version.
func EncodeBare(code func(*Stream)) []byte {
	s := &Stream{writing: true}
	code(s)
	return s.bytes
}

// DecodeBare reads what EncodeBare wrote.
func DecodeBare(data []byte, code func(*Stream)) error {
	s := &Stream{bytes: data}
	code(s)
	return s.end()
}

// Version is the version of the encoding. A field of a newer one is coded only from that on.
func (s *Stream) Version() int64 { return s.version }

// Writing reports whether the stream encodes.
func (s *Stream) Writing() bool { return s.writing }

// Failed reports whether decoding has failed.
func (s *Stream) Failed() bool { return s.err != nil }

// Failf ends decoding with an error, unless there is one already.
func (s *Stream) Failf(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
}

func (s *Stream) remaining() int { return 8*len(s.bytes) - s.pos }

// end refuses anything but the padding of the last byte.
func (s *Stream) end() error {
	if s.err == nil && s.remaining() >= 8 {
		s.Failf("%d bytes follow its end", s.remaining()/8)
	}
	return s.err
}

// Bits codes the low bits of an integer that is not negative.
func (s *Stream) Bits(v *int64, width int) {
	if s.writing {
		s.write(*v, width)
	} else {
		*v = s.read(width)
	}
}

func (s *Stream) write(v int64, width int) {
	for width > 0 {
		if s.pos == 8*len(s.bytes) {
			s.bytes = append(s.bytes, 0)
		}
		free := 8 - s.pos%8
		n := min(width, free)
		chunk := byte(v >> (width - n) & (1<<n - 1)) //nolint:gosec // n is at most 8
		s.bytes[len(s.bytes)-1] |= chunk << (free - n)
		s.pos += n
		width -= n
	}
}

func (s *Stream) read(width int) int64 {
	if s.err != nil || width > s.remaining() {
		s.Failf("it ends at bit %d", s.pos)
		return 0
	}
	var v int64
	for width > 0 {
		n := min(width, 8-s.pos%8)
		chunk := s.bytes[s.pos/8] >> (8 - s.pos%8 - n) & byte(1<<n-1)
		v = v<<n | int64(chunk)
		s.pos += n
		width -= n
	}
	return v
}

// Flag codes one bit.
func (s *Stream) Flag(v *bool) {
	var n int64
	if *v {
		n = 1
	}
	if s.Bits(&n, 1); !s.writing {
		*v = n == 1
	}
}

// Number codes an integer from 0 to 2^63-1: 6 bits for its width, then the bits.
func (s *Stream) Number(v *int64) {
	width := int64(BitWidth(*v))
	s.Bits(&width, 6)
	s.Bits(v, int(width))
}

// Numbers codes integers one after the other.
func (s *Stream) Numbers(values ...*int64) {
	for _, v := range values {
		s.Number(v)
	}
}

// Int codes an integer from 0 to 2^63-1.
func (s *Stream) Int(v *int) {
	n := int64(*v)
	if s.Number(&n); !s.writing {
		*v = int(n)
	}
}

// Signed codes an integer by zigzag: 0, -1, 1, -2, … become 0, 1, 2, 3, … It takes |v| < 2^62.
func (s *Stream) Signed(v *int64) {
	n := *v<<1 ^ *v>>63
	if s.Number(&n); !s.writing {
		*v = n>>1 ^ -(n & 1)
	}
}

// Natural codes a non-negative integer of any size.
func (s *Stream) Natural(v *big.Int) {
	if s.writing {
		raw := v.Bytes()
		s.Len(len(raw), 8)
		s.Raw(raw)
		return
	}
	raw := make([]byte, s.Len(0, 8))
	s.Raw(raw)
	v.SetBytes(raw)
}

// Raw codes bytes of a fixed number.
func (s *Stream) Raw(raw []byte) {
	for i := range raw {
		n := int64(raw[i])
		if s.Bits(&n, 8); !s.writing {
			raw[i] = byte(n & 0xff)
		}
	}
}

// Column codes a fixed number of non-negative integers at the width of the largest one.
func (s *Stream) Column(values []int64) {
	var all int64
	for _, v := range values {
		all |= v
	}
	width := int64(BitWidth(all))
	s.Bits(&width, 6)
	for i := range values {
		s.Bits(&values[i], int(width))
	}
}

// Len codes the number of items that take at least itemBits each. A decoder refuses a number that
// the rest of the stream can't contain, before it allocates memory.
func (s *Stream) Len(n, itemBits int) int {
	count := int64(n)
	if s.Number(&count); !s.writing && (count*int64(itemBits) > int64(s.remaining()) || count > int64(s.remaining())) {
		s.Failf("it counts %d items with %d bits to go", count, s.remaining())
		return 0
	}
	return int(count)
}

// CodeList codes a list whose items take at least itemBits each.
func CodeList[T any](s *Stream, list *[]T, itemBits int, each func(*T)) {
	n := s.Len(len(*list), itemBits)
	if !s.writing {
		*list = nil
	}
	for i := 0; i < n && s.err == nil; i++ {
		if !s.writing {
			*list = append(*list, *new(T))
		}
		each(&(*list)[i])
	}
}

// Texts codes texts one after the other.
func (s *Stream) Texts(texts ...*string) {
	for _, text := range texts {
		s.Text(text)
	}
}

// Text codes a text, digests and names in fewer bits than others.
func (s *Stream) Text(text *string) {
	if s.writing {
		s.writeText(*text)
	} else {
		*text = s.readText()
	}
}

func (s *Stream) writeText(text string) {
	if sum, ok := digestBytes(text); ok {
		s.write(textDigest, 2)
		s.Raw(sum)
		return
	}
	kind, width := int64(textRaw), 8
	if strings.Trim(text, Alphabet) == "" {
		kind, width = textName, 6
	}
	s.write(kind, 2)
	s.Len(len(text), width)
	for i := range len(text) {
		if width == 6 {
			s.write(int64(strings.IndexByte(Alphabet, text[i])), width)
		} else {
			s.write(int64(text[i]), width)
		}
	}
}

func (s *Stream) readText() string {
	kind := s.read(2)
	switch kind {
	case textDigest:
		sum := make([]byte, 32)
		s.Raw(sum)
		return DigestPrefix + hex.EncodeToString(sum)
	case textName, textRaw:
	default:
		s.Failf("it has a text of unknown kind")
		return ""
	}
	width := 8
	if kind == textName {
		width = 6
	}
	n := s.Len(0, width)
	if n > MaxText {
		s.Failf("it has a text of %d bytes", n)
		return ""
	}
	chars := make([]byte, n)
	for i := range chars {
		if v := s.read(width); kind == textName {
			chars[i] = Alphabet[v]
		} else {
			chars[i] = byte(v & 0xff)
		}
	}
	return string(chars)
}

func digestBytes(text string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(text, DigestPrefix)
	sum, err := hex.DecodeString(digits)
	return sum, ok && err == nil && len(sum) == 32 && digits == strings.ToLower(digits)
}

// TextBits returns the size of a name of that length.
func TextBits(length int) int { return 2 + NumberBits(int64(length)) + 6*length }

// NumberBits returns the size of an integer.
func NumberBits(v int64) int { return 6 + BitWidth(v) }

// BitWidth returns the number of bits of a non-negative integer.
func BitWidth(v int64) int { return bits.Len64(uint64(max(v, 0))) }
