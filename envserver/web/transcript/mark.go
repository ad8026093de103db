package transcript

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/csenv/csenv/envserver/grader"
)

// Mark is a sentence of a message of the agent on which criteria of the grade rest.
type Mark struct {
	// ID identifies the mark in a page, after the prefix of the excerpt.
	ID string
	// Step is the number of the step that shows the message.
	Step int
	Text string
	// Criteria are the titles of what rests on the sentence. Harm means that one of them costs
	// points.
	Criteria []string
	Harm     bool

	from, to int // bytes of the message
}

// Title lists the criteria.
func (m *Mark) Title() string { return strings.Join(m.Criteria, "; ") }

// maxMarked is the length, in bytes, of the longest message that is searched: pages show all of it.
const maxMarked = 20_000

// message is a message of the agent.
type message struct {
	step     *Step
	ticketID string // "" if it isn't known
	text     string
}

// written is the text of the agent's message that a page shows with a step, or "".
func (s *Step) written() string {
	for _, item := range s.Items {
		switch {
		case item.Call != nil:
			return item.Call.Sent()
		case item.Message.IsReply():
			return item.Message.Content
		}
	}
	if s.Refused != "" {
		return ""
	}
	return s.Action.Message
}

// messages are the messages of the agent, the last one first.
func (t *Transcript) messages() []message {
	var all []message
	ticketID := ""
	for i := range t.Steps {
		s := &t.Steps[i]
		before := ticketID
		for _, item := range s.Items {
			if item.Opened != nil {
				ticketID = item.Opened.TicketID
			}
		}
		text := s.written()
		if text == "" || len(text) > maxMarked {
			continue
		}
		of := ticketID
		if !s.Answered() {
			of = before // the action ended this ticket, and the next one was opened
		}
		all = append(all, message{s, of, text})
	}
	slices.Reverse(all)
	return all
}

// mark marks the sentences on which the grade rests.
func (t *Transcript) mark() {
	messages := t.messages()
	for i := range t.Reviews {
		r := &t.Reviews[i]
		own := slices.DeleteFunc(slices.Clone(messages), func(m message) bool {
			return r.TicketID != "" && m.ticketID != "" && m.ticketID != r.TicketID
		})
		title := ""
		for k := range r.Rows {
			row := &r.Rows[k]
			if row.Depth < 2 {
				title = row.Criterion
			}
			if row.Mark = markFirst(own, title, row); row.Mark != nil && row.Given == notStated {
				row.Given = "in the letter, not among the facts"
			}
		}
	}
	t.number()
}

// markFirst marks the sentence on which a row rests: its quote or, without one, its first text that
// occurs.
func markFirst(messages []message, title string, row *Row) *Mark {
	if row.Depth == 2 {
		title += ": " + row.Criterion
	}
	texts := row.texts
	if quote := acceptedQuote(row.Evidence); quote != "" {
		texts = []string{quote}
	}
	harm := row.Points != nil && row.Points.Kind == Bound
	for _, text := range texts {
		if m := markText(messages, title, harm, text); m != nil {
			return m
		}
	}
	return nil
}

// acceptedQuote is the quote of an answer on which the grade rests, or "".
func acceptedQuote(e *grader.Evidence) string {
	if e == nil || e.Verdict != grader.Met || e.Refused != "" {
		return ""
	}
	return e.Quote
}

// markText marks the sentence of the last message that has a text, nil if none has it.
func markText(messages []message, criterion string, harm bool, text string) *Mark {
	for _, m := range messages {
		if from, to := findWords(m.text, text); from >= 0 {
			return m.step.markSentence(m.text, from, to, criterion, harm)
		}
	}
	return nil
}

// markSentence marks the sentence around a part of a message, unless some of it is marked already.
func (s *Step) markSentence(text string, from, to int, criterion string, harm bool) *Mark {
	from, to = widenToSentence(text, from, to)
	at := slices.IndexFunc(s.Marks, func(m *Mark) bool { return from < m.to && m.from < to })
	if at < 0 {
		at = len(s.Marks)
		s.Marks = append(s.Marks, &Mark{Step: s.Number, Text: text[from:to], from: from, to: to})
	}
	m := s.Marks[at]
	m.Harm = m.Harm || harm
	if !slices.Contains(m.Criteria, criterion) {
		m.Criteria = append(m.Criteria, criterion)
	}
	return m
}

// number orders the marks of each step and gives them ids.
func (t *Transcript) number() {
	n := 0
	for i := range t.Steps {
		marks := t.Steps[i].Marks
		slices.SortFunc(marks, func(a, b *Mark) int { return cmp.Compare(a.from, b.from) })
		for _, m := range marks {
			n++
			m.ID = fmt.Sprintf("mark-%d", n)
		}
	}
}

// foldText is a text in which neither case, space nor the form of quotation marks counts, and the
// place of each of its bytes in the text.
func foldText(text string) (string, []int) {
	var b strings.Builder
	var at []int
	space := true
	for i, r := range text {
		switch {
		case unicode.IsSpace(r):
			if space {
				continue
			}
			r = ' '
		case strings.ContainsRune("‘’", r):
			r = '\''
		case strings.ContainsRune("“”„", r):
			r = '"'
		default:
			r = unicode.ToLower(r)
		}
		space = r == ' '
		n, _ := b.WriteRune(r)
		for range n {
			at = append(at, i)
		}
	}
	return b.String(), append(at, len(text))
}

// findWords returns where a text has words, whole and in their order, -1 if it doesn't.
func findWords(text, words string) (from, to int) {
	in, at := foldText(text)
	wanted, _ := foldText(words)
	if wanted = strings.TrimSpace(wanted); wanted == "" {
		return -1, -1
	}
	for start := 0; ; start++ {
		i := strings.Index(in[start:], wanted)
		if i < 0 {
			return -1, -1
		}
		if start += i; hasWordBounds(in, start, start+len(wanted)) {
			return at[start], at[start+len(wanted)]
		}
	}
}

// hasWordBounds reports whether no word or number continues beyond the ends of a part of a text.
func hasWordBounds(text string, from, to int) bool {
	first, _ := utf8.DecodeRuneInString(text[from:])
	last, _ := utf8.DecodeLastRuneInString(text[:to])
	before, size := utf8.DecodeLastRuneInString(text[:from])
	beyond, _ := utf8.DecodeLastRuneInString(text[:from-size])
	after, width := utf8.DecodeRuneInString(text[to:])
	further, _ := utf8.DecodeRuneInString(text[to+width:])
	point := func(r rune) bool { return r == '.' || r == ',' }
	word := isWordRune(first) && isWordRune(before) || isWordRune(last) && isWordRune(after)
	number := unicode.IsDigit(first) && point(before) && unicode.IsDigit(beyond) ||
		unicode.IsDigit(last) && point(after) && unicode.IsDigit(further)
	return !word && !number
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) && !isIdeographic(r) || unicode.IsDigit(r) }

// isIdeographic reports whether words of the letter's script have no spaces between them.
func isIdeographic(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai)
}

// widenToSentence widens a part of a text to whole sentences of its line.
func widenToSentence(text string, from, to int) (start, end int) {
	for i, r := range text[:from] {
		next, _ := utf8.DecodeRuneInString(text[i+utf8.RuneLen(r):])
		if r == '\n' || isSentenceEnd(r, next) {
			start = i + utf8.RuneLen(r)
		}
	}
	for start < from && unicode.IsSpace(rune(text[start])) {
		start++
	}
	end = len(text)
	last := max(to-1, from)
	for last > from && !utf8.RuneStart(text[last]) {
		last--
	}
	for i, r := range text[last:] {
		width := utf8.RuneLen(r)
		next, _ := utf8.DecodeRuneInString(text[last+i+width:])
		if r == '\n' {
			end = max(last+i, to)
			break
		}
		if isSentenceEnd(r, next) {
			end = last + i + width
			break
		}
	}
	return start, end
}

// isSentenceEnd reports whether a sentence ends with a character, by the one that follows.
func isSentenceEnd(r, next rune) bool {
	return strings.ContainsRune(".!?", r) && (unicode.IsSpace(next) || next == utf8.RuneError) ||
		strings.ContainsRune("。！？", r)
}

// Piece is a part of a text with its mark, nil for none.
type Piece struct {
	Text string
	Mark *Mark
}

// SplitAtMarks parts a message at its marks.
func SplitAtMarks(text string, marks []*Mark) []Piece {
	var pieces []Piece
	at := 0
	for _, m := range marks {
		if m.from > at {
			pieces = append(pieces, Piece{Text: text[at:m.from]})
		}
		pieces = append(pieces, Piece{m.Text, m})
		at = m.to
	}
	if at < len(text) {
		pieces = append(pieces, Piece{Text: text[at:]})
	}
	return pieces
}

// MarkAddress is the address of a mark: within the page if that shows its step.
func (e Excerpt) MarkAddress(m *Mark) string {
	fragment := "#" + e.Prefix + m.ID
	shown := m.Step >= e.From && m.Step <= e.To || len(e.Last) > 0 && m.Step >= e.Last[0].Number
	if shown {
		return fragment
	}
	return e.rangeFrom(m.Step).URL + fragment
}
