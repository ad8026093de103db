package offline

import (
	_ "embed"
	"strings"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader/text"
)

// injectionText are the patterns of texts that address the grader.
//
//go:embed injections.txt
var injectionText string

// patternStep is one step of a pattern of words.
type patternStep struct {
	words    wordSet
	prefixes []string
	reach    int // within how many words after the one before it the step has to follow
}

// maxStepReach is the reach of the steps that need not follow at once.
const maxStepReach = 8

// injectionPattern is a row of steps.
type injectionPattern struct {
	text  string
	steps []patternStep
}

// injectionIndex holds the patterns by the words that they can begin with, and those that begin
// with any ending of a word.
type injectionIndex struct {
	byWord map[string][]*injectionPattern
	// byHead are the patterns that begin with a word's beginning of this many bytes.
	byHead map[string][]*injectionPattern
}

// headLength is how many bytes a word's beginning has at least that a pattern can begin with.
const headLength = 4

func newInjectionIndex() *injectionIndex {
	index := &injectionIndex{byWord: map[string][]*injectionPattern{}, byHead: map[string][]*injectionPattern{}}
	for line := range strings.Lines(injectionText) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		p := &injectionPattern{text: line}
		for step := range strings.FieldsSeq(line) {
			p.steps = append(p.steps, newPatternStep(step))
		}
		for w := range p.steps[0].words {
			index.byWord[w] = append(index.byWord[w], p)
		}
		for _, w := range p.steps[0].prefixes {
			index.byHead[w[:headLength]] = append(index.byHead[w[:headLength]], p)
		}
	}
	return index
}

func newPatternStep(served string) patternStep {
	s := patternStep{words: wordSet{}, reach: 1}
	if rest, ok := strings.CutPrefix(served, "~"); ok {
		served, s.reach = rest, maxStepReach
	}
	for w := range strings.SplitSeq(served, "|") {
		if prefix, ok := strings.CutSuffix(w, "*"); ok {
			s.prefixes = append(s.prefixes, prefix)
		} else {
			s.words[w] = struct{}{}
		}
	}
	return s
}

func (s *patternStep) matches(w string) bool {
	if s.words.has(w) {
		return true
	}
	for _, p := range s.prefixes {
		if strings.HasPrefix(w, p) {
			return true
		}
	}
	return false
}

// begins reports whether the pattern starts at the first of the words.
func (p *injectionPattern) begins(words []string) bool { return p.follows(words, 0) }

func (p *injectionPattern) follows(words []string, step int) bool {
	if step == len(p.steps) {
		return true
	}
	s := &p.steps[step]
	for i := 0; i < min(s.reach, len(words)); i++ {
		if s.matches(words[i]) && p.follows(words[i+1:], step+1) {
			return true
		}
	}
	return false
}

// find returns the patterns that the words hold, at most one for each word.
func (x *injectionIndex) find(words []string, found func(p *injectionPattern) bool) {
	for i, w := range words {
		for _, p := range x.byWord[w] {
			if p.begins(words[i:]) && found(p) {
				return
			}
		}
		if len(w) < headLength {
			continue
		}
		for _, p := range x.byHead[w[:headLength]] {
			if p.begins(words[i:]) && found(p) {
				return
			}
		}
	}
}

// injectionMarkup returns markup of chats, verdicts and templates, which customers have no use for.
func injectionMarkup() []string {
	return []string{"<|", "[inst", "[/inst", "<system", "</system", "[system", "</reply", "<score", "<evaluation",
		"<!--", `"verdict"`, `"score"`, `"evidence_quote"`, `"postgate"`}
}

const (
	minSpelt   = 8  // the number of single letters in a row that count as a hidden text
	minEncoded = 40 // the length of a run of letters and digits that counts as an encoded text
)

// injection returns the part of a folded text that addresses the grader, or "". Texts that the
// agent was given are exempt.
func (p *prepared) injection(d *text.Document) string {
	for _, mark := range injectionMarkup() {
		if strings.Contains(d.Text, mark) && !p.serves(mark) {
			return mark
		}
	}
	words := d.Words()
	if said := hidden(words); said != "" {
		return said
	}
	said := ""
	p.lib.injections.find(words, func(pattern *injectionPattern) bool {
		if !p.servesPattern(pattern) {
			said = pattern.text
		}
		return said != ""
	})
	return said
}

// hidden returns the first word that hides a text: spelt letter by letter, or encoded.
func hidden(words []string) string {
	spelt := 0
	for _, w := range words {
		if len(w) > minEncoded && digitsIn(w) > 0 && !strings.ContainsAny(w, ".@:/") {
			return w[:minEncoded]
		}
		if utf8.RuneCountInString(w) > 1 {
			spelt = 0
			continue
		}
		if spelt++; spelt == minSpelt {
			return "letters that stand alone"
		}
	}
	return ""
}

func digitsIn(s string) int {
	n := 0
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			n++
		}
	}
	return n
}

// serves reports whether one of the texts that the agent was given contains the markup.
func (p *prepared) serves(mark string) bool {
	for _, served := range servedTexts(p.ticket) {
		if strings.Contains(text.Fold(text.Normalise(served)), mark) {
			return true
		}
	}
	return false
}

// servesPattern reports whether one of the texts that the agent was given contains the pattern.
func (p *prepared) servesPattern(pattern *injectionPattern) bool {
	serves := false
	for _, served := range servedTexts(p.ticket) {
		p.lib.injections.find(p.lib.read(served).Words(), func(found *injectionPattern) bool {
			serves = serves || found == pattern
			return serves
		})
	}
	return serves
}
