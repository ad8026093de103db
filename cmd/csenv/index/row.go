package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/csenv/csenv/cmd/csenv/source"
	"github.com/csenv/csenv/envserver/play/record"
	"github.com/csenv/csenv/envserver/score"
)

// The flags of a record.
const (
	hasReceipt = 1 << iota // it contains a receipt, valid or not
	isErrored
	isCounted // it counts in the figures
	isClaimed // it has a score and no valid receipt
	isDifferent
	underPressure
	isMute
	isWrong
)

// maxIndex and maxNameBytes bound what the index keeps. Plans stay far below.
const (
	maxIndex     = 1 << 40
	maxNameBytes = 256
)

// entry is what the index keeps of one record. Texts are numbers in the names of its segment.
type entry struct {
	// line counts the items of results.Store.Segment from 0, also lines that aren't records.
	line                         int
	flags                        uint64
	index, seed                  int64
	trial, turns, attempts       int64
	duration                     int64
	tokens                       score.Tokens
	counts                       score.Counts
	task, scenario, outcome      uint32
	class                        uint32
	countedTask, countedScenario uint32
	countedOutcome               uint32
	countedTrial, countedSeed    int64
	score                        int64 // micro-points as counted
	category, difficulty, tongue uint32
	dimensions                   []dimension
	lost                         []lostPoints
}

type lostPoints struct {
	reason uint32
	points int64
}

type dimension struct {
	name            uint32
	earned, offered int64
}

// packer encodes the records of a segment: a list of names, then the entries. Numbers are varints.
type packer struct {
	ids   map[string]uint32
	names []byte
	body  []byte
	line  int
}

func newPacker() *packer { return &packer{ids: map[string]uint32{}} }

var errNotKept = errors.New("it is not of a plan")

// add adds the record of a line.
func (p *packer) add(line int, e record.Episode, c source.Counted) error {
	if e.Index < 0 || e.Index >= maxIndex {
		return fmt.Errorf("%w: its index is %d", errNotKept, e.Index)
	}
	if !slices.Contains([]score.Outcome{score.Scored, score.Failed, score.Errored}, e.Outcome) {
		return fmt.Errorf("%w: its outcome is %.40q", errNotKept, e.Outcome)
	}
	flags := uint64(0)
	for flag, set := range map[uint64]bool{hasReceipt: e.Receipt != "", isErrored: c.Errored, isCounted: c.Counts,
		isClaimed: c.Claimed, isDifferent: hasOtherResult(e, c), underPressure: c.Planned.Pressure,
		isMute: c.Mute, isWrong: c.Episode.Wrong} {
		if set {
			flags |= flag
		}
	}
	p.unsigned(uint64(line - p.line)) //nolint:gosec // lines ascend
	p.line = line
	p.unsigned(flags)
	p.signed(e.Index, e.Seed, int64(e.Trial), int64(len(e.Turns)), int64(e.Attempts), e.DurationMS,
		c.Tokens.Prompt, c.Tokens.Completion)
	p.texts(clipName(e.Task), clipName(e.Scenario), clipName(string(e.Outcome)), clipName(e.Class))
	if !c.Counts {
		return nil
	}
	p.signed(int64(c.Planned.Trial), c.Planned.Seed, c.Episode.Score)
	p.signed(c.Counted.Answers, c.Counted.NoAction, c.Counted.Unread)
	p.texts(c.Planned.Task, c.Planned.Scenario, string(c.Episode.Outcome), c.Episode.Category, c.Episode.Difficulty,
		c.Episode.Language)
	p.unsigned(uint64(len(c.Episode.Dimensions)))
	for _, d := range c.Episode.Dimensions {
		p.texts(d.Name)
		p.signed(d.Earned, d.Offered)
	}
	p.unsigned(uint64(len(c.Lost)))
	for _, l := range c.Lost {
		p.texts(l.Reason)
		p.signed(l.Points)
	}
	return nil
}

// clipName bounds a name.
func clipName(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxNameBytes)], "")
}

// hasOtherResult reports whether the figures have another result than the record.
func hasOtherResult(e record.Episode, c source.Counted) bool {
	if !c.Counts {
		return e.Score != nil
	}
	return e.Score == nil || source.ToMicroPoints(*e.Score) != c.Episode.Score || e.Outcome != c.Episode.Outcome
}

func (p *packer) unsigned(n uint64) { p.body = binary.AppendUvarint(p.body, n) }

func (p *packer) signed(numbers ...int64) {
	for _, n := range numbers {
		p.body = binary.AppendVarint(p.body, n)
	}
}

func (p *packer) texts(texts ...string) {
	for _, text := range texts {
		id, known := p.ids[text]
		if !known {
			id = uint32(len(p.ids)) //nolint:gosec // fewer than the bytes of a segment
			p.ids[text] = id
			p.names = append(binary.AppendUvarint(p.names, uint64(len(text))), text...)
		}
		p.unsigned(uint64(id))
	}
}

func (p *packer) bytes() []byte {
	return append(append(binary.AppendUvarint(nil, uint64(len(p.ids))), p.names...), p.body...)
}

// unpacker reads what packer wrote.
type unpacker struct {
	names []string
	rest  []byte
	bad   bool
	entry entry
}

var errBlob = errors.New("a row of the index is damaged: delete the index and start again")

func newUnpacker(blob []byte) (*unpacker, error) {
	u := &unpacker{rest: blob, entry: entry{}}
	n := u.unsigned()
	if n > uint64(len(blob)) {
		return nil, errBlob
	}
	u.names = make([]string, n)
	for i := range u.names {
		size := u.unsigned()
		if size > uint64(len(u.rest)) {
			return nil, errBlob
		}
		u.names[i], u.rest = string(u.rest[:size]), u.rest[size:]
	}
	return u, nil
}

// next reads an entry, which is valid until the next call. It is nil at the end.
func (u *unpacker) next() (*entry, error) {
	if len(u.rest) == 0 {
		return nil, nil
	}
	e := &u.entry
	*e = entry{line: e.line + int(u.unsigned()), flags: u.unsigned(), //nolint:gosec // checked by its users
		dimensions: e.dimensions[:0], lost: e.lost[:0]}
	u.signed(&e.index, &e.seed, &e.trial, &e.turns, &e.attempts, &e.duration, &e.tokens.Prompt,
		&e.tokens.Completion)
	u.texts(&e.task, &e.scenario, &e.outcome, &e.class)
	if e.flags&isCounted != 0 {
		u.signed(&e.countedTrial, &e.countedSeed, &e.score)
		u.signed(&e.counts.Answers, &e.counts.NoAction, &e.counts.Unread)
		u.texts(&e.countedTask, &e.countedScenario, &e.countedOutcome, &e.category, &e.difficulty, &e.tongue)
		for n := u.unsigned(); n > 0 && !u.bad; n-- {
			var d dimension
			u.texts(&d.name)
			u.signed(&d.earned, &d.offered)
			e.dimensions = append(e.dimensions, d)
		}
		for n := u.unsigned(); n > 0 && !u.bad; n-- {
			var l lostPoints
			u.texts(&l.reason)
			u.signed(&l.points)
			e.lost = append(e.lost, l)
		}
	}
	if u.bad {
		return nil, errBlob
	}
	return e, nil
}

func (u *unpacker) unsigned() uint64 {
	n, size := binary.Uvarint(u.rest)
	if size <= 0 {
		u.bad = true
		return 0
	}
	u.rest = u.rest[size:]
	return n
}

func (u *unpacker) signed(numbers ...*int64) {
	for _, to := range numbers {
		n, size := binary.Varint(u.rest)
		if size <= 0 {
			u.bad = true
			return
		}
		*to, u.rest = n, u.rest[size:]
	}
}

func (u *unpacker) texts(ids ...*uint32) {
	for _, to := range ids {
		n := u.unsigned()
		if n >= uint64(len(u.names)) {
			u.bad = true
			return
		}
		*to = uint32(n) //nolint:gosec // below the number of names
	}
}

// counted is what the figures need of the last entry.
func (u *unpacker) counted() source.Counted {
	e := &u.entry
	c := source.Counted{Index: e.index, Attempts: int(e.attempts), DurationMS: e.duration, Tokens: e.tokens,
		Errored: e.flags&isErrored != 0, Counts: e.flags&isCounted != 0, Claimed: e.flags&isClaimed != 0,
		Mute: e.flags&isMute != 0, Counted: e.counts}
	if c.Errored {
		c.Class = u.names[e.class]
	}
	if !c.Counts {
		return c
	}
	c.Planned = score.PlannedEpisode{Index: e.index, Task: u.names[e.countedTask],
		Scenario: u.names[e.countedScenario], Trial: int(e.countedTrial), Seed: e.countedSeed,
		Pressure: e.flags&underPressure != 0}
	c.Episode = score.Episode{Outcome: score.Outcome(u.names[e.countedOutcome]), Score: e.score,
		Wrong:    e.flags&isWrong != 0,
		Category: u.names[e.category], Difficulty: u.names[e.difficulty], Language: u.names[e.tongue],
		Dimensions: make([]score.Dimension, len(e.dimensions))}
	for i, d := range e.dimensions {
		c.Episode.Dimensions[i] = score.Dimension{Name: u.names[d.name], Earned: d.earned, Offered: d.offered}
	}
	for _, l := range e.lost {
		c.Lost = append(c.Lost, source.Lost{Reason: u.names[l.reason], Points: l.points})
	}
	return c
}
