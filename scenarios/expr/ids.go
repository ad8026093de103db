package expr

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// IDPattern makes ids: literals, capitals without I and O, and digits. The last digit of the last
// group of digits is a Luhn check digit over all digits of the id.
type IDPattern []idPart

type idPart struct {
	literal string
	class   string // digits or letters
	count   int
}

var idGroup = regexp.MustCompile(`\{(digits|letters):([0-9]{1,2})\}`)

// maxIDLength bounds an id, in bytes.
const maxIDLength = 64

// ParseIDPattern reads a pattern such as "PAY-{digits:7}".
func ParseIDPattern(pattern string) (IDPattern, error) {
	var p IDPattern
	rest, digits := pattern, false
	for loc := idGroup.FindStringSubmatchIndex(rest); loc != nil; loc = idGroup.FindStringSubmatchIndex(rest) {
		count, err := strconv.Atoi(rest[loc[4]:loc[5]])
		if err != nil || count == 0 {
			return nil, fmt.Errorf("id pattern %q: a group has at least 1 character", pattern)
		}
		class := rest[loc[2]:loc[3]]
		digits = digits || class == "digits"
		p = append(p, idPart{literal: rest[:loc[0]]}, idPart{class: class, count: count})
		rest = rest[loc[1]:]
	}
	if !digits || strings.ContainsAny(rest, "{}") {
		return nil, fmt.Errorf("id pattern %q: write groups as {digits:6} or {letters:2}, with at least one of digits",
			pattern)
	}
	if p = append(p, idPart{literal: rest}); p.length() > maxIDLength {
		return nil, fmt.Errorf("id pattern %.80q makes ids of %d characters: at most %d are allowed", pattern,
			p.length(), maxIDLength)
	}
	return p, nil
}

func (p IDPattern) length() int {
	n := 0
	for _, part := range p {
		n += len(part.literal) + part.count
	}
	return n
}

// Draw returns an id of the pattern.
func (p IDPattern) Draw(s *Stream) string {
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
	var buf [maxIDLength]byte
	b := buf[:0]
	check := -1
	for _, part := range p {
		b = append(b, part.literal...)
		for range part.count {
			if part.class == "letters" {
				b = append(b, letters[s.Below(uint64(len(letters)))])
				continue
			}
			check = len(b)
			b = append(b, "0123456789"[s.Below(10)])
		}
	}
	b[check] = luhnDigit(b, check)
	return string(b)
}

// luhnDigit returns the digit that, at position check, makes the Luhn sum (ISO/IEC 7812-1, annex B)
// over all digits of id divisible by ten. No digit may follow check.
func luhnDigit(id []byte, check int) byte {
	sum, double := 0, true
	for i := check - 1; i >= 0; i-- {
		if id[i] < '0' || id[i] > '9' {
			continue
		}
		d := int(id[i] - '0')
		if double {
			d = d*2/10 + d*2%10
		}
		sum, double = sum+d, !double
	}
	return byte('0' + (10-sum%10)%10)
}
