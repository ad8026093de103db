package endpoint

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// What models and servers write in place of JSON is read here: dicts of Python, objects of
// JavaScript, trailing commas, and texts with line breaks.

// ListObjects lists the parts of a model's text that may be the object that it was asked for: all
// of it, the last fenced block, and the part from the first brace to the last one.
func ListObjects(content string) []string {
	text := strings.TrimSpace(content)
	objects := []string{text}
	const fence = "```"
	if end := strings.LastIndex(text, fence); end > 0 {
		if start := strings.LastIndex(text[:end], fence); start >= 0 {
			block := text[start+len(fence) : end]
			if line, rest, ok := strings.Cut(block, "\n"); ok && !strings.Contains(line, "{") {
				block = rest // the language of the block
			}
			objects = append(objects, block)
		}
	}
	if from, to := strings.Index(text, "{"), strings.LastIndex(text, "}"); from >= 0 && to > from {
		objects = append(objects, text[from:to+1])
	}
	return objects
}

// maxLoose bounds, in bytes, the texts in which objects that aren't JSON are looked for: finding
// the end of one takes a pass over the text for each beginning.
const maxLoose = 16 << 10

// looseWords are the words that stand for values in JSON.
var looseWords = map[string]string{"True": "true", "False": "false", "true": "true", "false": "false", "None": "null",
	"null": "null", "undefined": "null", "NaN": "null", "nan": "null", "Infinity": "null", "inf": "null"}

// LooseJSON writes the object or the list at the beginning of a text as JSON, and returns its
// length in the text; 0 if there is none. What it returns need not be valid.
func LooseJSON(text string) (out string, length int) {
	var b []byte
	depth := 0
	for i := 0; i < len(text); {
		n := 1
		switch c := text[i]; {
		case c == '"' || c == '\'':
			var quoted string
			if quoted, n = looseText(text[i:]); n == 0 {
				return "", 0
			}
			b = append(b, quoted...)
		case strings.IndexByte("{[(", c) >= 0:
			depth++
			b = append(b, strings.Replace(string(c), "(", "[", 1)...)
		case strings.IndexByte("}])", c) >= 0:
			depth--
			b = bytes.TrimSuffix(bytes.TrimRight(b, " \t\r\n"), []byte(","))
			b = append(b, strings.Replace(string(c), ")", "]", 1)...)
		default:
			rest := strings.TrimLeftFunc(text[i:], isNameRune)
			if n = max(len(text)-i-len(rest), 1); n == 1 && !isNameRune(rune(c)) {
				b = append(b, c)
				break
			}
			name := text[i : i+n]
			value, known := looseWords[name]
			switch {
			case strings.HasPrefix(strings.TrimLeft(rest, " \t\r\n"), ":"):
				b = append(b, `"`+name+`"`...)
			case known:
				b = append(bytes.TrimSuffix(b, []byte("-")), value...)
			default:
				b = append(b, name...)
			}
		}
		if i += n; depth <= 0 {
			return string(b), i
		}
	}
	return "", 0
}

// isNameRune reports whether a rune is part of a word or a number.
func isNameRune(r rune) bool {
	return r == '_' || r == '$' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

// escaper writes the escapes of JSON.
var escaper = strings.NewReplacer(`\\`, `\\`, `\"`, `\"`, `\'`, `'`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`)

// looseText writes the text in quotes at the beginning of another one as JSON, and returns its
// length; 0 without an end.
func looseText(text string) (string, int) {
	end := 1
	for ; end < len(text) && text[end] != text[0]; end++ {
		if text[end] == '\\' {
			end++
		}
	}
	if end >= len(text) {
		return "", 0
	}
	if quoted := `"` + escaper.Replace(text[1:end]) + `"`; json.Valid([]byte(quoted)) {
		return quoted, end + 1
	}
	var b strings.Builder
	for rest := text[1:end]; rest != ""; {
		r, _, tail, err := strconv.UnquoteChar(rest, text[0])
		if err != nil { // an escape of neither language
			rest = strings.TrimPrefix(rest, `\`)
			size := 0
			r, size = utf8.DecodeRuneInString(rest)
			tail = rest[size:]
		}
		b.WriteRune(r)
		rest = tail
	}
	quoted, _ := json.Marshal(b.String())
	return string(quoted), end + 1
}
