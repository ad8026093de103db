package scenarios

import (
	"maps"
	"slices"
	"time"

	"github.com/csenv/csenv/scenarios/desk"
)

// Cents is an amount of US dollars in cents.
type Cents = desk.Cents

// Backend contains the records behind a workflow's tools. Tools return the records as JSON; actions
// append refunds and cases.
type Backend struct {
	Orders   []Order
	Payments []Payment
	Refunds  []Refund
	Cases    []Case
}

// Order is the result of check_order_status.
type Order struct {
	ID        string            `json:"order_id"`
	Status    string            `json:"status"`
	Placed    *time.Time        `json:"placed,omitempty"`
	Delivered *time.Time        `json:"delivered,omitempty"`
	Carrier   string            `json:"carrier,omitempty"`
	Tracking  string            `json:"tracking,omitempty"`
	Total     Cents             `json:"total,omitempty"`
	Items     []Item            `json:"items,omitempty"`
	Notes     []string          `json:"notes,omitempty"`
	Details   map[string]string `json:"details,omitempty"`
}

// Item is a line of an order.
type Item struct {
	Name     string `json:"name"`
	Quantity int64  `json:"quantity"`
	Shipped  int64  `json:"shipped"`
	Price    Cents  `json:"price"`
}

// Payment is the result of check_payment.
type Payment struct {
	ID      string            `json:"payment_id"`
	OrderID string            `json:"order_id,omitempty"`
	Status  string            `json:"status"`
	Amount  Cents             `json:"amount"`
	Method  string            `json:"method,omitempty"`
	At      *time.Time        `json:"at,omitempty"`
	Details map[string]string `json:"details,omitempty"`
}

// Refund is money sent back, before the episode or by initiate_refund.
type Refund struct {
	ID        string     `json:"refund_id"`
	OrderID   string     `json:"order_id,omitempty"`
	PaymentID string     `json:"payment_id,omitempty"`
	Amount    Cents      `json:"amount"`
	At        *time.Time `json:"at,omitempty"`
}

// Case is an escalation.
type Case struct {
	ID      string `json:"case_id"`
	Team    string `json:"team"`
	OrderID string `json:"order_id,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Order returns the order of the given id.
func (b *Backend) Order(id string) (Order, bool) {
	i := slices.IndexFunc(b.Orders, func(o Order) bool { return o.ID == id })
	if i < 0 {
		return Order{}, false
	}
	return b.Orders[i], true
}

// PaymentsOf returns the payments whose id or order id is the given one, in the backend's order.
func (b *Backend) PaymentsOf(id string) []Payment {
	var found []Payment
	for _, p := range b.Payments {
		if p.ID == id || p.OrderID == id {
			found = append(found, p)
		}
	}
	return found
}

// RefundsOf returns the refunds of a payment or order, in the backend's order.
func (b *Backend) RefundsOf(id string) []Refund {
	var found []Refund
	for _, r := range b.Refunds {
		if r.PaymentID == id || r.OrderID == id {
			found = append(found, r)
		}
	}
	return found
}

// Clone returns a copy that shares no mutable data.
func (b *Backend) Clone() Backend {
	c := Backend{Orders: slices.Clone(b.Orders), Payments: slices.Clone(b.Payments), Refunds: slices.Clone(b.Refunds),
		Cases: slices.Clone(b.Cases)}
	for i, o := range c.Orders {
		c.Orders[i].Items, c.Orders[i].Notes, c.Orders[i].Details = slices.Clone(o.Items), slices.Clone(
			o.Notes), maps.Clone(o.Details)
	}
	for i, p := range c.Payments {
		c.Payments[i].Details = maps.Clone(p.Details)
	}
	return c
}
