package rollout

// resumeAttempts is the maximum number of requests for the episodes that a server's ledger has.
const resumeAttempts = 3
