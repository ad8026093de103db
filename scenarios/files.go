package scenarios

// The file structs mirror the YAML of scenario files. See decoder for the tags.

// baseMetadata names a data file.
type baseMetadata struct {
	ID      string `yaml:"id"`
	Version int    `yaml:"version"`
	// Canary is the same GUID in all files of a pack, so that a search finds a corpus that
	// swallowed them.
	Canary string `yaml:"canary"`
	Pos    position
}

// metadata names a scenario.
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
	drawing
	Customer    customerFile     `yaml:"customer"`
	Sentiment   sentimentFile    `yaml:"sentiment"`
	SLA         slaFile          `yaml:"sla"`
	Variants    []variantFile    `yaml:"variants"`
	History     []messageFile    `yaml:"history,optional"`
	Attachments []attachmentFile `yaml:"attachments,optional"`
	State       evidenceFile     `yaml:"state,optional"`
	KB          kbFile           `yaml:"kb"`
	Situation   situationFile    `yaml:"situation"`
	Gold        goldFile         `yaml:"gold"`
	Reply       replyFile        `yaml:"reply"`
	UserSim     *userSimFile     `yaml:"user_sim,optional"`
	References  referencesFile   `yaml:"references"`
}

type ticketMetadata struct {
	metadata
	Difficulty string `yaml:"difficulty" enum:"easy|medium|hard"`
	// Cue is the category that a reader of keywords would say.
	Cue string `yaml:"cue" enum:"billing|shipping|technical|general"`
}

type customerFile struct {
	Name         text    `yaml:"name"`
	Company      text    `yaml:"company,optional"`
	AccountLevel string  `yaml:"account_level" enum:"basic|premium|enterprise"`
	Since        instant `yaml:"since,optional"`
}

type sentimentFile struct {
	Tone      string `yaml:"tone" enum:"angry|calm|neutral|worried"`
	Intensity int    `yaml:"intensity"`
}

type slaFile struct {
	FirstResponseMinutes integer `yaml:"first_response_minutes"`
}

type variantFile struct {
	item
	Subject     text `yaml:"subject"`
	Description text `yaml:"description"`
}

type messageFile struct {
	item
	Role string  `yaml:"role" enum:"customer|agent"`
	At   instant `yaml:"at"`
	Text text    `yaml:"text"`
}

type attachmentFile struct {
	item
	Name    text `yaml:"name"`
	Content text `yaml:"content"`
}

type kbFile struct {
	Available   []string `yaml:"available"`
	Distractors []string `yaml:"distractors,optional"`
	Pos         position
}

type situationFile struct {
	Hazard             boolean `yaml:"hazard,optional"`
	AuthorityEmergency boolean `yaml:"authority_emergency,optional"`
	Compromise         boolean `yaml:"compromise,optional"`
	BusinessStop       boolean `yaml:"business_stop,optional"`
	Irreversible       boolean `yaml:"irreversible,optional"`
	CoreUnusable       boolean `yaml:"core_unusable,optional"`
	MoneyHarm          boolean `yaml:"money_harm,optional"`
	Degraded           boolean `yaml:"degraded,optional"`
	Delay              boolean `yaml:"delay,optional"`
	WholeSite          boolean `yaml:"whole_site,optional"`
	Pallet             boolean `yaml:"pallet,optional"`
	WronglyTaken       amount  `yaml:"wrongly_taken,optional"`
	Disputed           amount  `yaml:"disputed,optional"`
	Deadline           text    `yaml:"deadline,optional"`
	Devices            integer `yaml:"devices,optional"`
	Act                actFile `yaml:"act"`
}

type actFile struct {
	Kind   text   `yaml:"kind"`
	Amount amount `yaml:"amount,optional"`
}

type goldFile struct {
	Category   labelFile      `yaml:"category"`
	Priority   labelFile      `yaml:"priority"`
	Escalation escalationFile `yaml:"escalation"`
	Pos        position
}

type labelFile struct {
	Value      text            `yaml:"value"`
	Alternates []alternateFile `yaml:"alternates,optional"`
	Rule       text            `yaml:"rule,optional"`
}

type alternateFile struct {
	item
	Value  text  `yaml:"value"`
	Credit int64 `yaml:"credit"`
}

type escalationFile struct {
	Required       boolean `yaml:"required"`
	Team           text    `yaml:"team,optional"`
	TeamAlternates []text  `yaml:"team_alternates,optional"`
	ReasonCode     text    `yaml:"reason_code,optional"`
	Policy         text    `yaml:"policy,optional"`
}

type replyFile struct {
	Facts     []factFile      `yaml:"facts"`
	Outcome   outcomeFile     `yaml:"outcome"`
	Questions []questionFile  `yaml:"questions,optional"`
	Forbidden []forbiddenFile `yaml:"forbidden,optional"`
	Points    *pointsFile     `yaml:"points,optional"`
	Words     []int           `yaml:"length_words,optional"`
	Pos       position
}

type factFile struct {
	item
	ID       string  `yaml:"id"`
	Slot     string  `yaml:"slot"`
	Value    text    `yaml:"value"`
	Accept   []text  `yaml:"accept,optional"`
	Context  []text  `yaml:"context"`
	Polarity string  `yaml:"polarity,optional" enum:"pos|neg"`
	Optional bool    `yaml:"optional,optional"`
	Shown    boolean `yaml:"shown,optional"`
	Pos      position
}

type outcomeFile struct {
	Slot   string   `yaml:"slot,optional"`
	Value  text     `yaml:"value"`
	Accept []text   `yaml:"accept,optional"`
	Facts  []string `yaml:"facts,optional"`
	Pos    position
}

type questionFile struct {
	item
	ID         string   `yaml:"id"`
	Text       text     `yaml:"text"`
	AnsweredBy []string `yaml:"answered_by"`
	Pos        position
}

type forbiddenFile struct {
	item
	ID     string   `yaml:"id"`
	Kind   string   `yaml:"kind" enum:"commitment|amount_not_in|disclosure|missing_safety"`
	Verbs  []string `yaml:"verbs,optional"`
	Values []text   `yaml:"values,optional"`
	Cap    int64    `yaml:"cap"`
	Pos    position
}

// userSimFile is the script of a customer who writes back.
type userSimFile struct {
	Persona  string          `yaml:"persona" enum:"terse|chatty|formal|anxious"`
	MaxTurns int             `yaml:"max_turns"`
	Answers  []simAnswerFile `yaml:"answers,optional"`
	Lines    simLinesFile    `yaml:"lines"`
	StopWhen []string        `yaml:"stop_when,optional" enum:"outcome_stated|facts_stated"`
	Pos      position
}

type simAnswerFile struct {
	item
	ID    string  `yaml:"id"`
	Ask   []text  `yaml:"ask"`
	Text  text    `yaml:"text"`
	Known boolean `yaml:"known"`
	Told  boolean `yaml:"told,optional"`
	Pos   position
}

type simLinesFile struct {
	Calm    []text `yaml:"calm"`
	Uneasy  []text `yaml:"uneasy,optional"`
	Annoyed []text `yaml:"annoyed,optional"`
	Angry   []text `yaml:"angry"`
	Pos     position
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
	Pos position
}

type referencesFile struct {
	Good []goodFile `yaml:"good"`
	Bad  []badFile  `yaml:"bad,optional"`
	Pos  position
}

// goodFile is a text, or {text, when}.
type goodFile struct {
	item
	Text text `yaml:"text"`
}

type badFile struct {
	item
	Text text   `yaml:"text"`
	Max  int64  `yaml:"max"`
	Why  string `yaml:"why"`
}

type workflowFile struct {
	APIVersion string           `yaml:"apiVersion" enum:"csenv/v1"`
	Kind       string           `yaml:"kind" enum:"WorkflowScenario"`
	Metadata   workflowMetadata `yaml:"metadata"`
	Language   string           `yaml:"language,optional" enum:"en|de|es|fr"`
	drawing
	Customer   customerFile   `yaml:"customer"`
	Query      queryFile      `yaml:"query"`
	Visible    visibleFile    `yaml:"initial_visible,optional"`
	State      backendFile    `yaml:"state"`
	Steps      []stepFile     `yaml:"steps"`
	Neutral    []neutralFile  `yaml:"neutral,optional"`
	Forbidden  []spoilerFile  `yaml:"forbidden,optional"`
	Goal       []predicate    `yaml:"goal"`
	Facts      []factFile     `yaml:"facts"`
	Faults     []faultFile    `yaml:"tool_faults,optional"`
	Limits     limitsFile     `yaml:"limits"`
	References referencesFile `yaml:"references"`
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

type backendFile struct {
	Orders   []orderFile   `yaml:"orders,optional"`
	Payments []paymentFile `yaml:"payments,optional"`
	Refunds  []refundFile  `yaml:"refunds,optional"`
	Cases    []caseFile    `yaml:"cases,optional"`
}

type orderFile struct {
	item
	ID        text          `yaml:"id"`
	Status    text          `yaml:"status"`
	Placed    instant       `yaml:"placed,optional"`
	Delivered instant       `yaml:"delivered,optional"`
	Carrier   text          `yaml:"carrier,optional"`
	Tracking  text          `yaml:"tracking,optional"`
	Total     amount        `yaml:"total,optional"`
	Items     []itemFile    `yaml:"items,optional"`
	Notes     []text        `yaml:"notes,optional"`
	Details   ordered[text] `yaml:"details,optional"`
}

type itemFile struct {
	item
	Name     text    `yaml:"name"`
	Quantity integer `yaml:"quantity"`
	Shipped  integer `yaml:"shipped"`
	Price    amount  `yaml:"price"`
}

type paymentFile struct {
	item
	ID      text          `yaml:"id"`
	OrderID text          `yaml:"order_id,optional"`
	Status  text          `yaml:"status"`
	Amount  amount        `yaml:"amount"`
	Method  text          `yaml:"method,optional"`
	At      instant       `yaml:"at,optional"`
	Details ordered[text] `yaml:"details,optional"`
}

type refundFile struct {
	item
	ID        text    `yaml:"id"`
	OrderID   text    `yaml:"order_id,optional"`
	PaymentID text    `yaml:"payment_id,optional"`
	Amount    amount  `yaml:"amount"`
	At        instant `yaml:"at,optional"`
}

type caseFile struct {
	item
	ID      text `yaml:"id"`
	Team    text `yaml:"team"`
	OrderID text `yaml:"order_id,optional"`
	Reason  text `yaml:"reason,optional"`
}

type stepFile struct {
	item
	ID       string           `yaml:"id"`
	Action   string           `yaml:"action" enum:"check_order_status|check_payment|initiate_refund|escalate_issue|respond_user"`
	Args     ordered[argFile] `yaml:"args,optional"`
	Requires []string         `yaml:"requires,optional"`
	Terminal bool             `yaml:"terminal,optional"`
	Ask      bool             `yaml:"ask,optional"`
	Answer   text             `yaml:"answer,optional"`
	About    []string         `yaml:"about,optional"`
	Pos      position
}

// argFile is any, {eq: value} or {in: [values]}.
type argFile struct {
	Eq  argValue   `yaml:"eq,optional"`
	In  []argValue `yaml:"in,optional"`
	any bool
	pos position
}

// argValue is text, a whole number or an expression of either.
type argValue struct{ template }

type neutralFile struct {
	item
	Action string           `yaml:"action" enum:"check_order_status|check_payment|initiate_refund|escalate_issue|respond_user"`
	Args   ordered[argFile] `yaml:"args,optional"`
	Max    int              `yaml:"max,optional"`
}

// spoilerFile is an action that spoils a workflow.
type spoilerFile struct {
	item
	ID     string    `yaml:"id"`
	Action string    `yaml:"action" enum:"check_order_status|check_payment|initiate_refund|escalate_issue|respond_user"`
	If     predicate `yaml:"when_action,optional"`
	Verbs  []string  `yaml:"verbs,optional"`
	Why    string    `yaml:"why,optional"`
	Pos    position
}

type faultFile struct {
	item
	Action string `yaml:"action" enum:"check_order_status|check_payment|initiate_refund|escalate_issue|respond_user"`
	Call   int    `yaml:"call"`
	Error  string `yaml:"error"`
}

type limitsFile struct {
	MaxSteps    int          `yaml:"max_steps"`
	StepMinutes *minutesFile `yaml:"step_minutes,optional"`
}

// minutesFile is what each action takes of the simulated clock.
type minutesFile struct {
	CheckOrderStatus int `yaml:"check_order_status"`
	CheckPayment     int `yaml:"check_payment"`
	InitiateRefund   int `yaml:"initiate_refund"`
	EscalateIssue    int `yaml:"escalate_issue"`
	RespondUser      int `yaml:"respond_user"`
}
