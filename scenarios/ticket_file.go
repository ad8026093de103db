package scenarios

import (
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
