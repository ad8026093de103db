package scenarios

import (
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

type workflowFile struct {
	APIVersion string           `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string           `yaml:"kind" enum:"WorkflowScenario"`
	Metadata   workflowMetadata `yaml:"metadata"`
	Language   string           `yaml:"language,optional" enum:"en|de|es|fr"`
	// The params are compiled first, because their expressions can use only earlier variables.
	params.Drawing `compile:"-"`
	Customer       customerFile     `yaml:"customer"`
	Query          queryFile        `yaml:"query"`
	Visible        visibleFile      `yaml:"initial_visible,optional"`
	State          recordsFile      `yaml:"state"`
	Steps          []stepFile       `yaml:"steps"`
	Neutral        []neutralFile    `yaml:"neutral,optional"`
	Forbidden      []spoilerFile    `yaml:"forbidden,optional"`
	Goal           []expr.Predicate `yaml:"goal"`
	Facts          []factFile       `yaml:"facts"`
	Harm           []harmFile       `yaml:"harm,optional"`
	Faults         []faultFile      `yaml:"tool_faults,optional"`
	Limits         limitsFile       `yaml:"limits"`
	References     referencesFile   `yaml:"references"`
}

type workflowMetadata struct {
	metadata
	Difficulty string `yaml:"difficulty" enum:"simple|medium|complex"`
}

// queryFile is one text, or a list of texts of which one is drawn.
type queryFile []goodFile

type visibleFile struct {
	OrderStatus   string `yaml:"order_status,optional"`
	PaymentStatus string `yaml:"payment_status,optional"`
}

type recordsFile struct {
	Orders   []orderFile    `yaml:"orders,optional"`
	Payments []paymentFile  `yaml:"payments,optional"`
	Refunds  []refundFile   `yaml:"refunds,optional"`
	Cases    []openCaseFile `yaml:"cases,optional"`
}

type orderFile struct {
	expr.Item
	ID        expr.Text                 `yaml:"id"`
	Status    expr.Text                 `yaml:"status"`
	Placed    expr.Instant              `yaml:"placed,optional"`
	Delivered expr.Instant              `yaml:"delivered,optional"`
	Carrier   expr.Text                 `yaml:"carrier,optional"`
	Tracking  expr.Text                 `yaml:"tracking,optional"`
	Total     expr.Amount               `yaml:"total,optional"`
	Items     []itemFile                `yaml:"items,optional"`
	Notes     []expr.Text               `yaml:"notes,optional"`
	Details   source.Ordered[expr.Text] `yaml:"details,optional"`
}

type itemFile struct {
	expr.Item
	Name     expr.Text    `yaml:"name"`
	Quantity expr.Integer `yaml:"quantity"`
	Shipped  expr.Integer `yaml:"shipped"`
	Price    expr.Amount  `yaml:"price"`
}

type paymentFile struct {
	expr.Item
	ID      expr.Text                 `yaml:"id"`
	OrderID expr.Text                 `yaml:"order_id,optional"`
	Status  expr.Text                 `yaml:"status"`
	Amount  expr.Amount               `yaml:"amount"`
	Method  expr.Text                 `yaml:"method,optional"`
	At      expr.Instant              `yaml:"at,optional"`
	Details source.Ordered[expr.Text] `yaml:"details,optional"`
}

type refundFile struct {
	expr.Item
	ID        expr.Text    `yaml:"id"`
	OrderID   expr.Text    `yaml:"order_id,optional"`
	PaymentID expr.Text    `yaml:"payment_id,optional"`
	Amount    expr.Amount  `yaml:"amount"`
	At        expr.Instant `yaml:"at,optional"`
}

type openCaseFile struct {
	expr.Item
	ID      expr.Text `yaml:"id"`
	Team    expr.Text `yaml:"team"`
	OrderID expr.Text `yaml:"order_id,optional"`
	Reason  expr.Text `yaml:"reason,optional"`
}

type stepFile struct {
	expr.Item
	ID       string                  `yaml:"id"`
	Action   toolName                `yaml:"action"`
	Args     source.Ordered[argFile] `yaml:"args,optional"`
	Requires []string                `yaml:"requires,optional"`
	Terminal bool                    `yaml:"terminal,optional"`
	Ask      bool                    `yaml:"ask,optional"`
	Answer   expr.Text               `yaml:"answer,optional"`
	About    []string                `yaml:"about,optional"`
	Pos      source.Position
}

// argFile is any, {eq: value} or {in: [values]}.
type argFile struct {
	Eq  argValue   `yaml:"eq,optional"`
	In  []argValue `yaml:"in,optional"`
	any bool
	pos source.Position
}

// argValue is text, a whole number or an expression of either.
type argValue struct{ expr.Template }

type neutralFile struct {
	expr.Item
	Action toolName                `yaml:"action"`
	Args   source.Ordered[argFile] `yaml:"args,optional"`
	Max    int                     `yaml:"max,optional"`
}

// spoilerFile is an action that spoils a workflow.
type spoilerFile struct {
	expr.Item
	ID     string         `yaml:"id"`
	Action toolName       `yaml:"action"`
	If     expr.Predicate `yaml:"when_action,optional"`
	Why    string         `yaml:"why,optional"`
	Pos    source.Position
}

type faultFile struct {
	expr.Item
	Action toolName `yaml:"action"`
	Call   int      `yaml:"call"`
	Error  string   `yaml:"error"`
}

type limitsFile struct {
	MaxSteps    int         `yaml:"max_steps"`
	StepMinutes minutesFile `yaml:"step_minutes,optional"`
}

// toolName is the name of a tool that written workflows have.
type toolName string

// minutesFile contains the duration of each tool on the simulated clock, nil for those of the
// table.
type minutesFile map[string]int
