package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/csenv/csenv/envserver/env/episode"
	"github.com/csenv/csenv/scenarios"
)

// exportedTickets is the number of seeds for which the official server gets a ticket; for further
// seeds it serves these tickets again. csenv's server draws a ticket for every seed.
const exportedTickets = 2000

// ticketsVariable names the file of the exported tickets for the official server.
const ticketsVariable = "CSENV_TICKETS"

// exported is the file of tickets.
type exported struct {
	// Articles are the articles of all tickets, once each.
	Articles []article `json:"articles"`
	// Tickets are in the order of their seeds, from 0 on.
	Tickets []exportedTicket `json:"tickets"`
}

type article struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Body  string `json:"body"`
}

type exportedTicket struct {
	Served served `json:"served"`
	// Articles are indices of exported.Articles.
	Articles []int `json:"articles"`
	Gold     gold  `json:"gold"`
}

// served is the part of an observation that stays the same during an episode.
type served struct {
	TicketID      string            `json:"ticket_id"`
	Now           string            `json:"now"`
	CustomerName  string            `json:"customer_name"`
	Company       string            `json:"company"`
	CustomerSince string            `json:"customer_since"`
	AccountLevel  string            `json:"account_level"`
	Language      string            `json:"language"`
	Subject       string            `json:"subject"`
	Description   string            `json:"description"`
	Attachments   []servedText      `json:"attachments"`
	Conversation  []servedUtterance `json:"conversation_history"`
}

type servedText struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

type servedUtterance struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// gold are the right labels, and the credit of alternates in thousandths.
type gold struct {
	Category           string           `json:"category"`
	CategoryAlternates map[string]int64 `json:"category_alternates"`
	Priority           string           `json:"priority"`
	PriorityAlternates map[string]int64 `json:"priority_alternates"`
}

// exportTickets draws the tickets of the seeds from 0 to n-1, as csenv's server does.
func exportTickets(catalog *scenarios.Catalog, n int) (exported, error) {
	var out exported
	known := map[scenarios.Article]int{}
	all := catalog.Tickets()
	for seed := range int64(n) {
		drawn, err := all[episode.DrawIndex(seed, len(all))].Draw(seed)
		if err != nil {
			return exported{}, fmt.Errorf("exporting the ticket of seed %d: %w", seed, err)
		}
		ticket := exportTicket(&drawn.Served, seed)
		for _, a := range drawn.Articles {
			at, ok := known[a]
			if !ok {
				at = len(out.Articles)
				known[a] = at
				out.Articles = append(out.Articles, article(a))
			}
			ticket.Articles = append(ticket.Articles, at)
		}
		out.Tickets = append(out.Tickets, ticket)
	}
	return out, nil
}

func exportTicket(t *scenarios.Served, seed int64) exportedTicket {
	out := exportedTicket{
		Served: served{
			TicketID: episode.OpaqueID("T", "", seed), Now: t.Now.Format(time.RFC3339), CustomerName: t.Customer.Name,
			Company: t.Customer.Company, AccountLevel: t.Customer.AccountLevel, Language: t.Language,
			Subject: t.Subject, Description: t.Description, Attachments: []servedText{},
			Conversation: []servedUtterance{},
		},
		Articles: []int{},
		Gold: gold{Category: t.Gold.Category, CategoryAlternates: creditByValue(t.Gold.CategoryAlternates),
			Priority: t.Gold.Priority, PriorityAlternates: creditByValue(t.Gold.PriorityAlternates)},
	}
	if !t.Customer.Since.IsZero() {
		out.Served.CustomerSince = t.Customer.Since.Format(time.DateOnly)
	}
	for _, a := range t.Attachments {
		out.Served.Attachments = append(out.Served.Attachments, servedText(a))
	}
	for _, m := range t.History {
		out.Served.Conversation = append(out.Served.Conversation, servedUtterance{m.Role, m.Text})
	}
	return out
}

func creditByValue(alternates []scenarios.Alternate) map[string]int64 {
	credit := map[string]int64{}
	for _, a := range alternates {
		credit[a.Value] = a.Credit
	}
	return credit
}

// writeTickets exports the tickets of a catalogue to a file.
func writeTickets(catalog *scenarios.Catalog, path string) error {
	tickets, err := exportTickets(catalog, exportedTickets)
	if err != nil {
		return err
	}
	text, err := json.Marshal(tickets)
	if err != nil {
		return fmt.Errorf("encoding the tickets: %w", err)
	}
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
