package openenv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"

	"github.com/csenv/csenv/envserver/fairness"
	"github.com/csenv/csenv/envserver/openenv/ledger"
	"github.com/csenv/csenv/envserver/openenv/protocol"
	"github.com/csenv/csenv/envserver/poolkey"
	"github.com/csenv/csenv/envserver/score"
)

// serveReceipts adds episodes that another server of the pool graded to a shard's ledger, and
// answers with the indexes of its episodes. Repeated receipts change nothing. If one receipt is
// invalid, none is counted.
func (s *Server) serveReceipts(w http.ResponseWriter, r *http.Request) {
	key, grant, ok := s.ledgerKeyOf(w, r)
	if !ok {
		return
	}
	text, ok := protocol.ReadObject(w, r, protocol.RequiredBody)
	if !ok {
		return
	}
	var body protocol.Receipts
	// Counting before decoding keeps a million empty texts from being stored.
	if protocol.CountValues(text) > protocol.MaxReceipts+9 || json.Unmarshal(text, &body) != nil ||
		len(body.Receipts) > protocol.MaxReceipts || !body.Used.Valid() {
		protocol.WriteDetail(w, http.StatusUnprocessableEntity,
			fmt.Sprintf(`send {"receipts": [...]} with at most %d texts`, protocol.MaxReceipts))
		return
	}
	if err := s.beginShard(r.Context(), key, grant, body.Plan); err != nil {
		protocol.WriteDetail(w, ledgerStatus(err), err.Error())
		return
	}
	var turn int64
	if body.Plan != nil {
		turn = s.ledgers.Turn(key)
	}
	receipts := make([]score.Receipt, len(body.Receipts))
	for i, text := range body.Receipts {
		var err error
		if receipts[i], err = s.players.VerifyReceipt(text); err != nil {
			protocol.WriteDetail(w, http.StatusUnprocessableEntity, fmt.Sprintf("receipt %d: %v", i, err))
			return
		}
		runtime.Gosched() // thousands of signatures take half a second
	}
	tag := protocol.RunTag{Run: key.Run, Shard: key.Shard}
	if body.PassScore != nil {
		tag.PassScore = min(max(*body.PassScore, 0), score.One)
	}
	answer, err := s.ledgers.AddReceipts(tag, grant.Plan, body.PassScore != nil, receipts)
	if err != nil {
		protocol.WriteDetail(w, ledgerStatus(err), err.Error())
		return
	}
	answer.Turn, answer.Used = turn, s.ledgers.NoteUsed(key, body.Used)
	protocol.WriteJSON(w, http.StatusOK, answer)
}

// beginShard makes the plan of a run known, nil for none, and continues a shard that was begun on
// other servers of the pool.
func (s *Server) beginShard(ctx context.Context, key ledger.Key, grant poolkey.Grant, packed []byte) error {
	if packed == nil {
		return nil
	}
	release, err := fairness.OccupyProcessor(ctx, protocol.MaxPlan) // its length isn't known yet
	if err != nil {
		return err
	}
	text, err := protocol.UnpackPlan(packed)
	if err == nil {
		err = s.ledgers.Plan(key.Run, grant, text)
	}
	if release(); err != nil || s.ledgers.Has(key) {
		return err
	}
	asked, err := s.ledgers.Ask(key, s.publicKey())
	if err != nil {
		return err
	}
	states, silent := s.mesh.AskShard(ctx, key, score.FingerprintOf(text))
	return s.ledgers.TakeOver(key, asked, states, silent, s.publicKey())
}

// ledgerStatus is the status of a refused POST /ledger.
func ledgerStatus(err error) int {
	switch {
	case errors.Is(err, ledger.ErrFull), errors.Is(err, ledger.ErrTaken), errors.Is(err, ledger.ErrSilent):
		return http.StatusServiceUnavailable
	case errors.Is(err, ledger.ErrGrading):
		return http.StatusPreconditionFailed
	}
	return http.StatusConflict
}

// ledgerKeyOf returns the ledger that a request names and may use, and what its credential is for,
// or answers 400 or 403.
func (s *Server) ledgerKeyOf(w http.ResponseWriter, r *http.Request) (key ledger.Key, g poolkey.Grant, ok bool) {
	query := r.URL.Query()
	shard, err := strconv.Atoi(query.Get("shard"))
	if run := query.Get("run"); run == "" || len(run) > protocol.MaxRunID || shard < 0 || err != nil {
		protocol.WriteDetail(w, http.StatusBadRequest, "request /ledger?run=<UID of the run>&shard=<number>")
		return ledger.Key{}, g, false
	}
	g, err = s.ledgers.Admit(query.Get("run"), r.Header.Get(protocol.CredentialHeader))
	if err != nil {
		protocol.WriteDetail(w, http.StatusForbidden, err.Error())
		return ledger.Key{}, g, false
	}
	return ledger.Key{Run: query.Get("run"), Shard: shard}, g, true
}

// serveLedger serves the signed ledger of a run's shard.
func (s *Server) serveLedger(w http.ResponseWriter, r *http.Request) {
	key, _, ok := s.ledgerKeyOf(w, r)
	if !ok {
		return
	}
	signed, err := s.ledgers.Sign(key, s.cfg.LedgerKey)
	switch {
	case errors.Is(err, ledger.ErrNoLedger):
		protocol.WriteDetail(w, http.StatusNotFound, err.Error())
	case err != nil:
		s.log.Error("A ledger can't be signed", "run", key.Run, "shard", key.Shard, "error", err)
		protocol.WriteDetail(w, http.StatusInternalServerError, err.Error())
	default:
		protocol.WriteJSON(w, http.StatusOK, s.players.SealLedger(signed))
		s.ledgers.Fetched(key)
	}
}
