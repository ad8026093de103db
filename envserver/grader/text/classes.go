package text

// WordClass is a set of classes of words, a bit each: the compiler refuses a 65th. StemClass is a
// set of classes of stems, Phrases a set of kinds of phrases.
type (
	WordClass uint64
	StemClass uint16
	Phrases   uint16
)

// The classes of words.
const (
	Stopwords WordClass = 1 << iota
	Conjunctions
	// Abbreviations end in a full stop that ends no sentence.
	Abbreviations
	Currencies
	Percents
	Ordinals
	// Articles count one.
	Articles
	// Within come before a length of time.
	Within
	// Business make days business days.
	Business
	// NumberJoins join the words of a number, or two statements.
	NumberJoins
	Negators
	// Idioms follow a negator that negates nothing: "no doubt".
	Idioms
	// Untils begin what a negator before them doesn't negate.
	Untils
	// Losses are harmless when negated.
	Losses
	// Lasting come before the time for which something holds.
	Lasting
	// Narrow negate only what follows at once: "without".
	Narrow
	// Conditions begin a condition.
	Conditions
	// Times begin a time that has still to come.
	Times
	// Either begin an alternative.
	Either
	// Hedges leave open what their clause says.
	Hedges
	// Aux are auxiliary verbs.
	Aux
	// Skip may stand between an auxiliary and its verb.
	Skip
	FirstPerson
	SecondPerson
	// Enablers say that the company has made up its mind.
	Enablers
	// Grounds begin phrases that give the reason for a promise.
	Grounds
	// Calendar say when.
	Calendar
	// Abilities say that somebody can.
	Abilities
	// Doing follow an ability that begins an offer.
	Doing
	// Back say that something comes back.
	Back
	// Determiners begin an object.
	Determiners
	// Imperatives begin sentences that ask the customer for something.
	Imperatives
	// Demands say what a customer asks for.
	Demands
	// Toward come before those to whom something goes.
	Toward
	// Relatives begin clauses that describe a noun.
	Relatives
	// Deciding say that somebody has to find something out or to agree first.
	Deciding
	// Simple begin a condition that needs no decision.
	Simple
	// Guesses make what follows them a guess.
	Guesses
	// Extra may stand between a number and its unit: "three more days".
	Extra
	// identify and the three bits above it mark the commonest words of each language, in the order
	// of languages.
	identify
	_
	_
	_
)

// The classes of stems.
const (
	Finite StemClass = 1 << iota
	Courtesy
	Givers
	Completions
	Money
	Returns
	Apology
	Empathy
	Thanks
	Teams
	Handover
)

// The kinds of phrases.
const (
	// EmptyConditions are conditions that can't fail: "if you like".
	EmptyConditions Phrases = 1 << iota
	// OpenPhrases leave the matter open.
	OpenPhrases
	// Recognise take up the customer's situation.
	Recognise
	// Blame blame the customer.
	Blame
	// Beyond begin the limit of what the writer can do.
	Beyond
	// Duties say what somebody has to do.
	Duties
	// Please ask for something.
	Please
	// Senses give a word of a remedy another sense: "credit card".
	Senses
	// Pronouns go on about the sentence before.
	Pronouns
	// Handed hand something over.
	Handed
)

// maxGroups is the number of bits of a token's groups.
const maxGroups = 64

// wordKeys are the classes of words by their keys in a lexicon's file.
func wordKeys() map[string]WordClass {
	return map[string]WordClass{
		"stopwords": Stopwords, "conjunctions": Conjunctions, "abbreviations": Abbreviations, "currencies": Currencies,
		"percents": Percents, "ordinals": Ordinals, "articles": Articles, "within": Within,
		"business": Business, "joins": NumberJoins, "negators": Negators, "idioms": Idioms,
		"untils": Untils, "losses": Losses, "lasting": Lasting, "narrow": Narrow,
		"conditions": Conditions, "times": Times, "either": Either, "hedges": Hedges,
		"aux": Aux, "skip": Skip, "first_person": FirstPerson, "second_person": SecondPerson,
		"enablers": Enablers, "grounds": Grounds, "calendar": Calendar, "abilities": Abilities,
		"doing": Doing, "back": Back, "determiners": Determiners, "imperatives": Imperatives,
		"demands": Demands, "toward": Toward, "relatives": Relatives, "deciding": Deciding,
		"simple": Simple, "guesses": Guesses, "extra": Extra,
	}
}

// stemKeys are the classes of stems by their keys.
func stemKeys() map[string]StemClass {
	return map[string]StemClass{
		"finite": Finite, "courtesy": Courtesy, "givers": Givers, "completions": Completions,
		"money": Money, "returns": Returns, "apology": Apology, "empathy": Empathy,
		"thanks": Thanks, "teams": Teams, "handover": Handover,
	}
}

// phraseKeys are the kinds of phrases by their keys.
func phraseKeys() map[string]Phrases {
	return map[string]Phrases{
		"empty_conditions": EmptyConditions, "open_phrases": OpenPhrases, "recognise": Recognise, "blame": Blame,
		"beyond": Beyond, "duties": Duties, "please": Please, "senses": Senses,
		"pronouns": Pronouns, "handed": Handed,
	}
}

// known reports whether a lexicon's file may have the key.
func known(key string) bool {
	switch key {
	case "identify", "expand", "numbers", "fractions", "months", "seconds", "months_of", "irregular", "remedy", "same",
		"commit", "endings":
		return true
	}
	return wordKeys()[key] != 0 || stemKeys()[key] != 0 || phraseKeys()[key] != 0
}
