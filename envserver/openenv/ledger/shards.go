package ledger

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/score"
)

// ShardState is what a server knows of a shard of a planned run. Peers exchange it when the shard
// is played on another server.
type ShardState struct {
	// Ended are the episodes that have ended, and Counted those in the ledger, which is nil without
	// any.
	Ended   score.IndexSet      `json:"ended,omitzero"`
	Counted score.IndexSet      `json:"counted,omitzero"`
	Ledger  *score.SignedLedger `json:"ledger,omitempty"`
	// Used are the tokens that the shard's runners have reported.
	Used score.Tokens `json:"used,omitzero"`
}

// NoteUsed takes note of the tokens that a shard's runners have used, and returns the most that a
// runner has reported, none without a ledger. They aren't part of the ledger: what is signed is
// what the server has seen itself.
func (s *Ledgers) NoteUsed(key Key, used score.Tokens) score.Tokens {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	if l == nil {
		return score.Tokens{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = l.used.Larger(used)
	return l.used
}

// Has reports whether a shard's ledger is here, and no peer has taken it.
func (s *Ledgers) Has(key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.byKey[key]
	return l != nil && l.run.playsShard(key.Shard)
}

// Ask numbers a request to the peers for a shard of a run, and returns the number, which TakeOver
// needs. A parcel of the shard is added to what is known of it.
func (s *Ledgers) Ask(key Key, public ed25519.PublicKey) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[key.Run]
	if r == nil || r.plan == nil || key.Shard >= r.plan.Shards() {
		return 0, nil
	}
	r.asked++
	held := r.holds[key.Shard]
	held.asked = r.asked
	r.holds[key.Shard] = held
	kept, found := s.parcels[key]
	if !found || kept.Plan != r.fingerprint {
		return r.asked, nil
	}
	delete(s.parcels, key)
	return r.asked, s.addStates(key, r, []ShardState{kept.State}, public)
}

// silentPatience is how long a shard waits for a peer that is silent, which may be grading it. One
// that is gone is soon no peer any more.
const silentPatience = 30 * time.Second

// GiveUp returns the state of a shard of the plan with a fingerprint, for a peer that plays the
// shard from now on. Episodes that are being played here, and further ones, no longer count here.
func (s *Ledgers) GiveUp(key Key, plan string, private ed25519.PrivateKey) (ShardState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var state ShardState
	if kept, found := s.parcels[key]; found && kept.Plan == plan {
		delete(s.parcels, key)
		return kept.State, nil
	}
	r := s.runs[key.Run]
	if r == nil || r.plan == nil || r.fingerprint != plan || key.Shard >= r.plan.Shards() {
		return state, nil
	}
	for index := range r.plan.Indexes(key.Shard) {
		if r.ended.Contains(index) {
			state.Ended.Add(index)
		}
	}
	delete(r.holds, key.Shard)
	l := s.byKey[key]
	if l == nil {
		return state, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	signed, err := l.sums.Sign(private)
	if err != nil {
		return state, err
	}
	state.Counted, state.Ledger, state.Used = l.listCounted(), &signed, l.used
	s.markUnread(l, false)
	return state, nil
}

// TakeOver continues a shard of a planned run with what the peers knew of it. A ledger that has all
// episodes of this server's replaces it, and one that has none of them is added. Episodes that
// ended and are in neither are lost. The states are what the peers have answered since Ask returned
// the number asked, and silent reports whether one hasn't. TakeOver returns ErrTaken if a peer or
// another request has asked for the shard since, and for silentPatience ErrSilent if one is silent.
func (s *Ledgers) TakeOver(key Key, asked int64, states []ShardState, silent bool, public ed25519.PublicKey) error {
	slices.SortStableFunc(states, func(a, b ShardState) int { return cmp.Compare(b.Counted.Len(), a.Counted.Len()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[key.Run]
	if r == nil || r.plan == nil || key.Shard >= r.plan.Shards() {
		return nil
	}
	held, now := r.holds[key.Shard], time.Now()
	if held.asked != asked {
		return ErrTaken
	}
	if held.since.IsZero() {
		held.since = now
	}
	err := s.addStates(key, r, states, public)
	if held.plays = held.plays || !silent || now.Sub(held.since) >= silentPatience; held.plays {
		held.since = time.Time{}
	} else if err == nil {
		err = ErrSilent
	}
	r.holds[key.Shard] = held
	return err
}

// addStates adds what peers knew of a shard.
func (s *Ledgers) addStates(key Key, r *run, states []ShardState, public ed25519.PublicKey) error {
	for _, state := range states {
		if state.Ledger == nil {
			continue
		}
		sums, err := state.Ledger.Verify(public)
		if err != nil {
			return fmt.Errorf("verifying a peer's ledger: %w", err)
		}
		l, err := s.openLedger(protocol.RunTag{Run: key.Run, Shard: key.Shard, PassScore: sums.PassScore}, r)
		if err != nil {
			return err
		}
		if err := l.mergeSums(sums, state.Counted); err != nil {
			return err
		}
		l.used = l.used.Larger(state.Used)
		if len(l.ended) > 0 || l.sums.Scored+l.sums.Failed > 0 {
			s.markUnread(l, true)
		}
	}
	l := s.byKey[key]
	for _, state := range states {
		for index := range r.plan.Indexes(key.Shard) {
			if !state.Ended.Contains(index) || r.ended.Contains(index) {
				continue
			}
			r.ended.Add(index)
			if l != nil {
				l.lost[index] = struct{}{}
			}
		}
	}
	return nil
}

// mergeSums takes over a peer's sums of the counted episodes, unless these overlap with the
// ledger's own without including them.
func (l *ShardLedger) mergeSums(sums *score.Ledger, counted score.IndexSet) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.listCounted()
	shared := int64(0)
	for index := range own.All {
		if counted.Contains(index) {
			shared++
		}
	}
	switch {
	case sums.Run != l.key.Run || sums.Shard != l.key.Shard:
		return score.ErrForeign
	case shared == own.Len():
		l.sums = *sums
	case shared > 0:
		return nil
	default:
		if err := l.sums.Merge(sums); err != nil {
			return err
		}
	}
	for index := range l.run.plan.Indexes(l.key.Shard) {
		if counted.Contains(index) {
			l.run.ended.Add(index)
			delete(l.lost, index)
		}
	}
	return nil
}

// maxParcels bounds the parcels of a server. A new one takes the place of one of the namespace that
// has most, unless its own has as many.
const maxParcels = maxLedgers

// Parcel is the state of a shard that a server gives away before it ends.
type Parcel struct {
	Run       string     `json:"run"`
	Namespace string     `json:"namespace"`
	Shard     int        `json:"shard"`
	Plan      string     `json:"plan"` // its fingerprint
	State     ShardState `json:"state"`
}

// GiveAway gives up all shards of planned runs in which an episode has ended. The first parcels of
// every namespace come before the second ones, and so on: there is little time to send them.
func (s *Ledgers) GiveAway(private ed25519.PrivateKey) (parcels []Parcel, err error) {
	of, turns := map[string]int{}, map[Key]int{}
	for _, p := range s.listShards() {
		key := Key{p.Run, p.Shard}
		if p.State, err = s.GiveUp(key, p.Plan, private); err != nil {
			return parcels, err
		}
		if p.State.Ended.Len() > 0 {
			of[p.Namespace]++
			turns[key] = of[p.Namespace]
			parcels = append(parcels, p)
		}
	}
	slices.SortFunc(parcels, func(a, b Parcel) int {
		return cmp.Or(cmp.Compare(turns[Key{a.Run, a.Shard}], turns[Key{b.Run, b.Shard}]),
			cmp.Compare(a.Namespace, b.Namespace))
	})
	return parcels, nil
}

// listShards returns all shards that aren't a peer's, without their states.
func (s *Ledgers) listShards() (shards []Parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.runs {
		if r.plan == nil || !r.hasEnded() {
			continue
		}
		for shard := range r.holds {
			shards = append(shards, Parcel{Run: id, Namespace: r.share.namespace, Shard: shard, Plan: r.fingerprint})
		}
	}
	for _, p := range s.parcels {
		shards = append(shards, Parcel{Run: p.Run, Namespace: p.Namespace, Shard: p.Shard, Plan: p.Plan})
	}
	return shards
}

// makeParcelRoom deletes a parcel for one of a namespace, if there are maxParcels. It reports false
// if it may delete none.
func (s *Ledgers) makeParcelRoom(namespace string) bool {
	if len(s.parcels) < maxParcels {
		return true
	}
	counts := map[string]int{}
	for _, p := range s.parcels {
		counts[p.Namespace]++
	}
	giver := findGiver(counts, namespace)
	for key, p := range s.parcels {
		if p.Namespace == giver && giver != namespace {
			delete(s.parcels, key)
			return true
		}
	}
	return false
}

// Keep takes a parcel of a peer that ends. This doesn't let the server play the shard, which
// another one may have taken over meanwhile.
func (s *Ledgers) Keep(p Parcel, public ed25519.PublicKey) error {
	key := Key{p.Run, p.Shard}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.runs[p.Run]
	if r == nil || r.plan == nil || r.fingerprint != p.Plan || p.Shard < 0 || p.Shard >= r.plan.Shards() {
		if _, known := s.parcels[key]; known || s.makeParcelRoom(p.Namespace) {
			s.parcels[key] = p
		}
		return nil
	}
	if _, held := r.holds[p.Shard]; !held {
		r.holds[p.Shard] = hold{} // given away with the others if this server ends, too
	}
	return s.addStates(key, r, []ShardState{p.State}, public)
}
