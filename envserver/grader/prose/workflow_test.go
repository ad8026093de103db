package prose

import (
	"encoding/json"

	"github.com/csenv/csenv/envserver/grader"
	"github.com/csenv/csenv/envserver/grader/text"
	"github.com/csenv/csenv/scenarios"
	"github.com/csenv/csenv/scenarios/desk"
)

// reading is what the judge reads in a message to a workflow's customer.
type reading struct {
	Facts   []grader.Finding
	Commits []string
	Faults  []grader.Gate
}

// ReadMessage reads a message to a workflow's customer as the judge reads replies to tickets. A
// time in a sentence about a fact contradicts it unless the time is the fact's or one of the
// workflow's allowed values.
func (o *Judge) ReadMessage(w *scenarios.Workflow, message string) reading {
	p := o.prepareWorkflow(w)
	plain, _ := text.NormaliseReply(message)
	r := &analysis{prepared: p, text: plain, doc: text.Parse(text.Fold(plain), p.lex)}
	r.findFacts()
	r.promises = r.lib.promiseReader(r.doc).promises()
	read := reading{Facts: r.findings, Commits: make([]string, len(p.gates))}
	for i := range p.gates {
		read.Commits[i] = r.tripped(&p.gates[i])
	}
	r.checkForm()
	r.checkHarm()
	read.Faults = r.verdict.Gates
	return read
}

// prepareWorkflow prepares the workflow as a ticket without served texts, with a gate for each
// forbidden action.
func (o *Judge) prepareWorkflow(w *scenarios.Workflow) *prepared {
	spec := scenarios.ReplySpec{Facts: w.Facts, Harm: w.Harm, AllowedValues: w.AllowedValues}
	for _, f := range w.Forbidden {
		spec.Forbidden = append(spec.Forbidden, f.Gate(0)) // a workflow's gate has no cap
	}
	p := prepareTicket(&scenarios.Ticket{Served: scenarios.Served{Language: w.Language}, Reply: spec}, o.libraries)
	p.known, p.generated, p.names = p.allowed, w.Desk != nil, nameSet(w.Customer)
	var state any = w.State
	var shared []string
	if w.Desk != nil {
		state = w.Desk.Records
		shared = append(shared, desk.PolicyDocument())
	}
	record, err := json.Marshal(state)
	if err != nil {
		panic(err) // The state has plain fields alone.
	}
	p.setReadable(shared, []string{w.Query, w.Customer.Name, string(record)}, w.Facts, w.References.Good)
	return p
}
