package protocol

import (
	"bytes"
	"slices"
	"strconv"
)

// replacement is the escape of U+FFFD, which is as long as a surrogate's.
const replacement = `\ufffd`

// repairSurrogates replaces escapes of half a surrogate pair by U+FFFD, as most decoders read them:
// models and programs that cut texts by UTF-16 units write them, and they are no JSON by RFC 7493.
func repairSurrogates(raw []byte) []byte {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return raw
	}
	copied := false
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		switch unit := unitAt(raw[i:]); {
		case unit < 0xd800 || unit > 0xdfff:
			i++ // the escaped character, which may be a backslash
		case unit < 0xdc00 && isLow(unitAt(raw[i+len(replacement):])):
			i += 2*len(replacement) - 1
		default:
			if !copied {
				raw, copied = slices.Clone(raw), true
			}
			i += copy(raw[i:], replacement) - 1
		}
	}
	return raw
}

func isLow(unit int) bool { return unit >= 0xdc00 && unit <= 0xdfff }

// unitAt is the UTF-16 unit that a text begins with as an escape, -1 if it begins otherwise.
func unitAt(text []byte) int {
	if len(text) < len(replacement) || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:len(replacement)]), 16, 16)
	if err != nil {
		return -1
	}
	return int(unit)
}
