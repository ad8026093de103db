package desk

import "time"

// Request is what a customer wants, as an adult would understand the message. Fields that the kind
// doesn't need are zero. What it claims may be wrong: the records decide.
type Request struct {
	// Kind is one of Kinds.
	Kind    string
	OrderID string
	SKU     string
	// Reason qualifies the kind: "changed_mind", "opened", "damaged", "defective", "wrong_item", …
	Reason string
	// Wish is the remedy that the customer prefers, "refund", "replacement" or "".
	Wish string
	// Amount is a sum that the customer names, 0 for none.
	Amount Cents
	// Value is a text of the request: a new address, a new plan, a coupon.
	Value string
	// Answers are what the customer states when asked, by topic: "photo", "serial", "address". A
	// topic that the request itself answers isn't asked.
	Answers map[string]string
	// Opened, Misused … are facts that the customer states in the message.
	Opened, Misused bool
}

// Decision is what is right to do about a request.
type Decision struct {
	// Outcome names the result, for texts: "refunded", "refused_late", …
	Outcome string
	// Reads are the look-ups and questions that the decision depends on, in the order in which they
	// are needed.
	Reads []Read
	// Effects are the changes that are right. Any other change is wrong.
	Effects []Effect
	// Confirms are the effects to which the customer has to agree before, in conversations.
	Confirms []Effect `json:",omitempty"`
	// Facts are the values that the customer must be told.
	Facts []Fact
	// Rules are the numbers of the policy's rules that were applied, in order.
	Rules []string
	// Handed is the number of the rule by which a team takes the request over, "" if none does.
	Handed string
}

// Read is a look-up or a question.
type Read struct {
	Tool string
	// Key is an order's id, a topic of the policy, or what is asked.
	Key string
}

// Fact is a value that the reply must state. Exactly one of the values is set.
type Fact struct {
	// Slot says what the value is: "refund_amount", "return_deadline", "team", …
	Slot   string
	Amount Cents
	Day    time.Time
	Days   int64
	Text   string
}
