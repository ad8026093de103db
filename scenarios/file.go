package scenarios

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/csenv/csenv/scenarios/desk"
	"github.com/csenv/csenv/scenarios/expr"
	"github.com/csenv/csenv/scenarios/params"
	"github.com/csenv/csenv/scenarios/source"
)

// The file structs mirror the YAML of scenario files. See decoder for the tags.

// baseMetadata identifies a data file.
type baseMetadata struct {
	ID      string `yaml:"id"`
	Version int    `yaml:"version"`
	// Canary is the same GUID in all files of a pack, so that a search can detect a training corpus
	// that contains them.
	Canary string `yaml:"canary"`
	Pos    source.Position
}

// metadata identifies a scenario.
type metadata struct {
	baseMetadata
	Split      string   `yaml:"split" enum:"public-train|public-dev|public-test|private"`
	Hardness   []string `yaml:"hardness,optional"`
	Authors    []string `yaml:"authors,optional"`
	ReviewedBy []string `yaml:"reviewedBy,optional"`
	Issues     []string `yaml:"issues,optional"`
}

type ticketFile struct {
	APIVersion string         `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string         `yaml:"kind" enum:"TicketScenario"`
	Metadata   ticketMetadata `yaml:"metadata"`
	Language   string         `yaml:"language" enum:"en|de|es|fr"`
	// The params are compiled first, because their expressions can use only earlier variables.
	params.Drawing `compile:"-"`
	Customer       customerFile     `yaml:"customer"`
	Sentiment      sentimentFile    `yaml:"sentiment"`
	SLA            slaFile          `yaml:"sla"`
	Variants       []variantFile    `yaml:"variants"`
	History        []messageFile    `yaml:"history,optional"`
	Attachments    []attachmentFile `yaml:"attachments,optional"`
	State          evidenceFile     `yaml:"state,optional"`
	KB             kbFile           `yaml:"kb"`
	Situation      situationFile    `yaml:"situation"`
	Gold           goldFile         `yaml:"gold"`
	Reply          replyFile        `yaml:"reply"`
	UserSim        *userSimFile     `yaml:"user_sim,optional"`
	References     referencesFile   `yaml:"references"`
}

type ticketMetadata struct {
	metadata
	Difficulty string `yaml:"difficulty" enum:"easy|medium|hard"`
	// Cue is the category that keywords indicate.
	Cue string `yaml:"cue" enum:"billing|shipping|technical|general"`
}

type customerFile struct {
	Name         expr.Text    `yaml:"name"`
	Company      expr.Text    `yaml:"company,optional"`
	AccountLevel string       `yaml:"account_level" enum:"basic|premium|enterprise"`
	Since        expr.Instant `yaml:"since,optional"`
}

type sentimentFile struct {
	Tone      string `yaml:"tone" enum:"angry|calm|neutral|worried"`
	Intensity int    `yaml:"intensity"`
}

type slaFile struct {
	FirstResponseMinutes expr.Integer `yaml:"first_response_minutes"`
}

type variantFile struct {
	expr.Item
	Subject     expr.Text `yaml:"subject"`
	Description expr.Text `yaml:"description"`
}

type messageFile struct {
	expr.Item
	Role string       `yaml:"role" enum:"customer|agent"`
	At   expr.Instant `yaml:"at"`
	Text expr.Text    `yaml:"text"`
}

type attachmentFile struct {
	expr.Item
	Name    expr.Text `yaml:"name"`
	Content expr.Text `yaml:"content"`
}

type kbFile struct {
	Available   []string `yaml:"available"`
	Distractors []string `yaml:"distractors,optional"`
	Pos         source.Position
}

type situationFile struct {
	Hazard             expr.Boolean `yaml:"hazard,optional"`
	AuthorityEmergency expr.Boolean `yaml:"authority_emergency,optional"`
	Compromise         expr.Boolean `yaml:"compromise,optional"`
	BusinessStop       expr.Boolean `yaml:"business_stop,optional"`
	Irreversible       expr.Boolean `yaml:"irreversible,optional"`
	CoreUnusable       expr.Boolean `yaml:"core_unusable,optional"`
	MoneyHarm          expr.Boolean `yaml:"money_harm,optional"`
	Degraded           expr.Boolean `yaml:"degraded,optional"`
	Delay              expr.Boolean `yaml:"delay,optional"`
	WholeSite          expr.Boolean `yaml:"whole_site,optional"`
	Pallet             expr.Boolean `yaml:"pallet,optional"`
	WronglyTaken       expr.Amount  `yaml:"wrongly_taken,optional"`
	Disputed           expr.Amount  `yaml:"disputed,optional"`
	Deadline           expr.Text    `yaml:"deadline,optional"`
	Devices            expr.Integer `yaml:"devices,optional"`
	Act                actFile      `yaml:"act"`
}

type actFile struct {
	Kind   expr.Text   `yaml:"kind"`
	Amount expr.Amount `yaml:"amount,optional"`
}

type goldFile struct {
	Category   labelFile      `yaml:"category"`
	Priority   labelFile      `yaml:"priority"`
	Escalation escalationFile `yaml:"escalation"`
	Pos        source.Position
}

type labelFile struct {
	Value      expr.Text       `yaml:"value"`
	Alternates []alternateFile `yaml:"alternates,optional"`
	Rule       expr.Text       `yaml:"rule,optional"`
}

type alternateFile struct {
	expr.Item
	Value  expr.Text `yaml:"value"`
	Credit int64     `yaml:"credit"`
}

type escalationFile struct {
	Required       expr.Boolean `yaml:"required"`
	Team           expr.Text    `yaml:"team,optional"`
	TeamAlternates []expr.Text  `yaml:"team_alternates,optional"`
	ReasonCode     expr.Text    `yaml:"reason_code,optional"`
	Policy         expr.Text    `yaml:"policy,optional"`
}

type replyFile struct {
	Facts     []factFile     `yaml:"facts"`
	NextStep  []expr.Text    `yaml:"next_step,optional"`
	Questions []questionFile `yaml:"questions,optional"`
	Harm      []harmFile     `yaml:"harm,optional"`
	Points    *pointsFile    `yaml:"points,optional"`
	Words     []int          `yaml:"length_words,optional"`
	Pos       source.Position
}

type factFile struct {
	expr.Item
	ID       string       `yaml:"id"`
	Slot     string       `yaml:"slot"`
	What     expr.Text    `yaml:"what,optional"`
	Judged   bool         `yaml:"judged,optional"`
	Value    expr.Text    `yaml:"value"`
	Also     []expr.Text  `yaml:"also,optional"`
	Polarity string       `yaml:"polarity,optional" enum:"pos|neg"`
	Optional bool         `yaml:"optional,optional"`
	Shown    expr.Boolean `yaml:"shown,optional"`
	Pos      source.Position
}

type questionFile struct {
	expr.Item
	ID         string    `yaml:"id"`
	Text       expr.Text `yaml:"text"`
	AnsweredBy []string  `yaml:"answered_by"`
	Pos        source.Position
}

// harmFile is a kind of statement that a reply must not make.
type harmFile struct {
	ID       string `yaml:"id"`
	Severity string `yaml:"severity" enum:"unacceptable|serious"`
	Why      string `yaml:"why"`
}

// userSimFile is the script of a customer who answers.
type userSimFile struct {
	Persona  string          `yaml:"persona" enum:"terse|chatty|formal|anxious"`
	MaxTurns int             `yaml:"max_turns"`
	Answers  []simAnswerFile `yaml:"answers,optional"`
	Lines    simLinesFile    `yaml:"lines"`
	StopWhen []string        `yaml:"stop_when,optional" enum:"outcome_stated|facts_stated"`
	Pos      source.Position
}

type simAnswerFile struct {
	expr.Item
	ID    string       `yaml:"id"`
	Ask   []expr.Text  `yaml:"ask"`
	Text  expr.Text    `yaml:"text"`
	Known expr.Boolean `yaml:"known"`
	Told  expr.Boolean `yaml:"told,optional"`
	Pos   source.Position
}

type simLinesFile struct {
	Calm    []expr.Text `yaml:"calm"`
	Uneasy  []expr.Text `yaml:"uneasy,optional"`
	Annoyed []expr.Text `yaml:"annoyed,optional"`
	Angry   []expr.Text `yaml:"angry"`
	Pos     source.Position
}

type pointsFile struct {
	Q1  int64 `yaml:"Q1"`
	Q2  int64 `yaml:"Q2"`
	Q3  int64 `yaml:"Q3"`
	Q4  int64 `yaml:"Q4"`
	Q5  int64 `yaml:"Q5"`
	Q6  int64 `yaml:"Q6"`
	Q7  int64 `yaml:"Q7"`
	Q8  int64 `yaml:"Q8"`
	Pos source.Position
}

type referencesFile struct {
	Good []goodFile `yaml:"good"`
	Bad  []badFile  `yaml:"bad,optional"`
	Pos  source.Position
}

// goodFile is a text, or {text, when}.
type goodFile struct {
	expr.Item
	Text expr.Text `yaml:"text"`
}

type badFile struct {
	expr.Item
	Text expr.Text `yaml:"text"`
	Max  int64     `yaml:"max"`
	Why  string    `yaml:"why"`
}

// nameFile is names/<lang>.yaml.
type nameFile struct {
	APIVersion string       `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string       `yaml:"kind" enum:"NameList"`
	Metadata   baseMetadata `yaml:"metadata"`
	People     struct {
		Given  []string `yaml:"given"`
		Family []string `yaml:"family"`
	} `yaml:"people"`
	Lists source.Ordered[[]string] `yaml:"lists,optional"`
}

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

// minutesFile contains the duration of each tool on the simulated clock, nil for the table's
// durations.
type minutesFile map[string]int

// FromYAML reads a text, or a mapping with a condition.
func (f *goodFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		f.Text.FromYAML(d, n)
		return
	}
	d.Mapping(n, source.ValueOf(f))
}

// FromYAML reads the name of a tool.
func (t *toolName) FromYAML(d *source.Decoder, n *yaml.Node) {
	var name string
	d.Value(n, source.ValueOf(&name), strings.Join(desk.ListToolNames(desk.Written), "|"))
	*t = toolName(name)
}

// FromYAML reads the minutes of all tools of written workflows.
func (m *minutesFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	var minutes source.Ordered[int]
	minutes.FromYAML(d, n)
	names := desk.ListToolNames(desk.Written)
	*m = minutesFile{}
	for i, e := range minutes {
		if !slices.Contains(names, e.Name) {
			d.Failf(n.Content[2*i], "unknown key %q%s", e.Name, source.SuggestWord(e.Name, names))
		}
		(*m)[e.Name] = e.Value
	}
	for _, name := range names {
		if _, given := (*m)[name]; !given {
			d.Failf(n, "missing key %q", name)
		}
	}
}

// FromYAML reads a text, or a list of texts.
func (f *queryFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		d.Sequence(n, source.ValueOf(f), "")
		return
	}
	*f = make(queryFile, 1)
	(*f)[0].FromYAML(d, n)
}

func (f *argFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	f.pos = d.At(n)
	if n.Kind == yaml.ScalarNode && n.Value == "any" {
		f.any = true
		return
	}
	if n.Kind != yaml.MappingNode || len(n.Content) != 2 {
		d.Failf(n, "an argument is any, {eq: value} or {in: [values]}")
		return
	}
	d.Mapping(n, source.ValueOf(f))
}

func (v *argValue) Compile(c *expr.Compiler) {
	v.Template = c.Template(v.Raw)
	if e := v.Single(); e != nil && !expr.FitsType(e.Type, cel.StringType, cel.IntType, cel.BoolType) {
		c.Failf(v.Pos, "expression %.120q is %s: an argument is text, a whole number or a bool", e.Source,
			cel.FormatCELType(e.Type))
	}
}

// evidenceFile is a ticket's state: the records behind the tools. Only its scalars are used, as
// values that a reply may state.
type evidenceFile struct {
	Scalars []evidence
}

func (f *evidenceFile) FromYAML(d *source.Decoder, n *yaml.Node) {
	known := []string{"orders", "payments", "invoices", "devices", "subscription", "account", "notes"}
	if n.Kind != yaml.MappingNode {
		d.Failf(n, "want a mapping, got %s", source.DescribeNode(n))
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(known, key.Value) {
			d.Failf(key, "unknown key %q%s", key.Value, source.SuggestWord(key.Value, known))
		}
		f.collect(d, n.Content[i+1], nil)
	}
}

func (f *evidenceFile) collect(d *source.Decoder, n *yaml.Node, conditions []expr.Condition) {
	switch n.Kind {
	case yaml.ScalarNode:
		e := evidence{conditions: conditions}
		e.value.FromYAML(d, n)
		f.Scalars = append(f.Scalars, e)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			f.collect(d, c, conditions)
		}
	default:
		f.collectMapping(d, n, conditions)
	}
}

func (f *evidenceFile) collectMapping(d *source.Decoder, n *yaml.Node, conditions []expr.Condition) {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == "when" {
			var when expr.Condition
			when.FromYAML(d, n.Content[i+1])
			conditions = append(slices.Clone(conditions), when)
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value != "when" {
			f.collect(d, n.Content[i+1], conditions)
		}
	}
}

func (f *evidenceFile) Compile(c *expr.Compiler) {
	for i := range f.Scalars {
		e := &f.Scalars[i]
		for j := range e.conditions {
			e.conditions[j].Compile(c)
		}
		e.parts = c.Template(e.value)
	}
}

// evidence is a scalar of the state, with the conditions on the path to it.
type evidence struct {
	conditions []expr.Condition
	value      source.Raw
	parts      expr.Template
}

// points returns the file's points, or the points of the reply judge's rubric.
func (f *replyFile) points() Points {
	if p := f.Points; p != nil {
		return Points{p.Q1, p.Q2, p.Q3, p.Q4, p.Q5, p.Q6, p.Q7, p.Q8}
	}
	return standardPoints()
}

// totalPoints is the maximum of a reply, in milli-points.
const totalPoints = 500

func standardPoints() Points {
	return Points{Q1: 160, Q2: 100, Q3: 60, Q4: 40, Q5: 40, Q6: 40, Q7: 30, Q8: 30}
}

// minutes returns the file's minutes, or the tools' own.
func (f *limitsFile) minutes() map[string]int {
	if f.StepMinutes != nil {
		return f.StepMinutes
	}
	return toolMinutes(desk.Written)
}

// toolMinutes are the durations of the tools that a kind of tasks has.
func toolMinutes(of desk.TaskKinds) map[string]int {
	minutes := map[string]int{}
	for _, name := range desk.ListToolNames(of) {
		minutes[name] = desk.FindTool(name).Minutes
	}
	return minutes
}

// moodLines are the lines of one mood.
type moodLines struct {
	name  string
	lines []expr.Text
}

// moods lists the moods from calm to angry.
func (f *simLinesFile) moods() []moodLines {
	return []moodLines{{"calm", f.Calm}, {"uneasy", f.Uneasy}, {"annoyed", f.Annoyed}, {"angry", f.Angry}}
}

// maxUserTurns bounds the messages of a customer, and so the memory of an episode.
const maxUserTurns = 10
