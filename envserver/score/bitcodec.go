package score

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
)

// bitWriter packs values into a bit stream, most significant bit first. Fixed-width columns make
// the size of a ledger predictable from its plan, which no general compressor does, and leave a
// decoder nothing to inflate.
type bitWriter struct {
	bytes []byte
	free  int // unused low bits of the last byte
}

// bits writes the low width bits of v, which is not negative.
func (w *bitWriter) bits(v int64, width int) {
	for width > 0 {
		if w.free == 0 {
			w.bytes = append(w.bytes, 0)
			w.free = 8
		}
		n := min(width, w.free)
		chunk := byte(v >> (width - n) & (1<<n - 1)) //nolint:gosec // n is at most 8
		w.bytes[len(w.bytes)-1] |= chunk << (w.free - n)
		w.free -= n
		width -= n
	}
}

// number writes an integer from 0 to 2^63-1: 6 bits for its width, then the bits.
func (w *bitWriter) number(v int64) {
	width := widthOf(v)
	w.bits(int64(width), 6)
	w.bits(v, width)
}

// signed writes an integer by zigzag: 0, -1, 1, -2, … become 0, 1, 2, 3, … It takes |v| < 2^62.
func (w *bitWriter) signed(v int64) { w.number(v<<1 ^ v>>63) }

// natural writes a non-negative integer of any size.
func (w *bitWriter) natural(v *big.Int) {
	raw := v.Bytes()
	w.number(int64(len(raw)))
	w.raw(raw)
}

func (w *bitWriter) raw(raw []byte) {
	for _, b := range raw {
		w.bits(int64(b), 8)
	}
}

// column writes non-negative integers at the width of the largest one.
func (w *bitWriter) column(values []int64) {
	var all int64
	for _, v := range values {
		all |= v
	}
	width := widthOf(all)
	w.bits(int64(width), 6)
	for _, v := range values {
		w.bits(v, width)
	}
}

// alphabet are the characters of names, in six bits each.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

const (
	textRaw    = 0 // 8 bits a byte
	textName   = 1 // 6 bits a character of the alphabet
	textDigest = 2 // 32 bytes of a "sha256:<hex>"
)

const digestPrefix = "sha256:"

func (w *bitWriter) text(s string) {
	if sum, ok := digestBytes(s); ok {
		w.bits(textDigest, 2)
		w.raw(sum)
		return
	}
	if strings.Trim(s, alphabet) == "" {
		w.bits(textName, 2)
		w.number(int64(len(s)))
		for i := range len(s) {
			w.bits(int64(strings.IndexByte(alphabet, s[i])), 6)
		}
		return
	}
	w.bits(textRaw, 2)
	w.number(int64(len(s)))
	w.raw([]byte(s))
}

func digestBytes(s string) ([]byte, bool) {
	text, ok := strings.CutPrefix(s, digestPrefix)
	sum, err := hex.DecodeString(text)
	return sum, ok && err == nil && len(sum) == 32 && text == strings.ToLower(text)
}

// textBits is what text takes for a name of a length.
func textBits(length int) int { return 2 + numberBits(int64(length)) + 6*length }

// numberBits is what number takes for v.
func numberBits(v int64) int { return 6 + widthOf(v) }

// widthOf is the number of bits of v, which is not negative.
func widthOf(v int64) int {
	width := 0
	for ; v > 0; v >>= 1 {
		width++
	}
	return width
}

// bitReader reads what bitWriter wrote, from untrusted bytes. The first fault sticks: every later
// read returns a zero, and err says what was wrong.
type bitReader struct {
	bytes []byte
	pos   int // in bits
	err   error
}

func (r *bitReader) failf(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

func (r *bitReader) remaining() int { return 8*len(r.bytes) - r.pos }

func (r *bitReader) bits(width int) int64 {
	if r.err != nil || width > r.remaining() {
		r.failf("it ends at bit %d", r.pos)
		return 0
	}
	var v int64
	for width > 0 {
		n := min(width, 8-r.pos%8)
		chunk := r.bytes[r.pos/8] >> (8 - r.pos%8 - n) & byte(1<<n-1)
		v = v<<n | int64(chunk)
		r.pos += n
		width -= n
	}
	return v
}

func (r *bitReader) number() int64 { return r.bits(int(r.bits(6))) }

func (r *bitReader) signed() int64 {
	v := r.number()
	return v>>1 ^ -(v & 1)
}

// count reads a number of items that take at least itemBits each, and refuses one that the rest of
// the stream can't hold, so that nobody allocates for it.
func (r *bitReader) count(itemBits int) int {
	n := r.number()
	if n*int64(itemBits) > int64(r.remaining()) || n > int64(r.remaining()) {
		r.failf("it counts %d items with %d bits to go", n, r.remaining())
		return 0
	}
	return int(n)
}

func (r *bitReader) natural() *big.Int { return new(big.Int).SetBytes(r.raw(r.count(8))) }

func (r *bitReader) raw(n int) []byte {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(r.bits(8) & 0xff)
	}
	return raw
}

func (r *bitReader) column(n int) []int64 {
	width := int(r.bits(6))
	values := make([]int64, n)
	for i := range values {
		values[i] = r.bits(width)
	}
	return values
}

// maxText bounds every text of a ledger, and maxName those that a run's status shows as names, in
// bytes.
const (
	maxText = 256
	maxName = 63
)

func (r *bitReader) text() string {
	switch r.bits(2) {
	case textDigest:
		return digestPrefix + hex.EncodeToString(r.raw(32))
	case textName:
		return r.name()
	case textRaw:
		return string(r.raw(r.textLength(8)))
	}
	r.failf("it has a text of unknown kind")
	return ""
}

func (r *bitReader) name() string {
	chars := make([]byte, r.textLength(6))
	for i := range chars {
		chars[i] = alphabet[r.bits(6)]
	}
	return string(chars)
}

func (r *bitReader) textLength(charBits int) int {
	n := r.count(charBits)
	if n > maxText {
		r.failf("it has a text of %d bytes", n)
		return 0
	}
	return n
}

// end refuses anything but the padding of the last byte.
func (r *bitReader) end() error {
	if r.err == nil && r.remaining() >= 8 {
		r.failf("%d bytes follow its end", r.remaining()/8)
	}
	return r.err
}
