package v1alpha1

// Condition types of a CustomerSupportEnv.
const (
	// ConditionAvailable is True while at least one server accepts sessions.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while servers are being created, replaced or removed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while something keeps servers from running; its message says what
	// and what to do.
	ConditionDegraded = "Degraded"
	// ConditionScalingLimited is True while autoscaling would have another number of servers than
	// it may; it is absent without autoscaling.
	ConditionScalingLimited = "ScalingLimited"
)

// Reasons of a CustomerSupportEnv's conditions.
const (
	// ReasonServersReady: servers accept sessions.
	ReasonServersReady = "ServersReady"
	// ReasonNoServerReady: no server accepts sessions yet.
	ReasonNoServerReady = "NoServerReady"
	// ReasonServersFull: every server that runs has as many sessions as it accepts.
	ReasonServersFull = "ServersFull"
	// ReasonScaledToZero: replicas is 0, so there is nothing to connect to.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: servers of an older template are being replaced, or servers are being added
	// or removed.
	ReasonRollingOut = "RollingOut"
	// ReasonRolledOut: all servers run the newest template.
	ReasonRolledOut = "RolledOut"
	// ReasonProgressDeadlineExceeded: the rollout made no progress within the Deployment's
	// deadline.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonImagePullFailed: the image can't be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonCrashLoop: a server ends again and again.
	ReasonCrashLoop = "CrashLoop"
	// ReasonStartFailed: a server's container can't be created.
	ReasonStartFailed = "StartFailed"
	// ReasonPodsRefused: the API server refuses the servers' pods, for a quota or a security
	// standard, say.
	ReasonPodsRefused = "PodsRefused"
	// ReasonNameTaken: an object of a name that the pool, or the run, needs belongs to something
	// else. A run waits until the name is free.
	ReasonNameTaken = "NameTaken"
	// ReasonApplyFailed: the API server refuses one of the pool's objects.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonUnschedulable: no node takes a server, or a runner.
	ReasonUnschedulable = "Unschedulable"
	// ReasonServersUnreachable: servers run, but the operator can't read their statistics.
	ReasonServersUnreachable = "ServersUnreachable"
	// ReasonSuspended: operatingMode or suspend asks for a pause.
	ReasonSuspended = "Suspended"
	// ReasonInvalidPack: a scenario pack has a fault; the servers that run play on with what they
	// have.
	ReasonInvalidPack = "InvalidPack"
	// ReasonAtMaximum: autoscaling would add servers beyond maxReplicas.
	ReasonAtMaximum = "AtMaximum"
	// ReasonAtMinimum: autoscaling would remove servers below minReplicas.
	ReasonAtMinimum = "AtMinimum"
	// ReasonWithinLimits: autoscaling has the number of servers that it wants.
	ReasonWithinLimits = "WithinLimits"
	// ReasonHealthy: nothing is known to be wrong.
	ReasonHealthy = "Healthy"
)

// Reasons of a CustomerSupportEnv's events that are no condition's.
const (
	// ReasonScaledUp: servers are added.
	ReasonScaledUp = "ScaledUp"
	// ReasonScaledDown: servers are removed; those with sessions end them first.
	ReasonScaledDown = "ScaledDown"
	// ReasonDrained: a server that was going has ended its sessions and is gone.
	ReasonDrained = "Drained"
	// ReasonSessionsCut: a server that was going cut sessions that outlived drainTimeoutSeconds.
	ReasonSessionsCut = "SessionsCut"
	// ReasonPacksChanged: the files of scenario packs have changed, and servers are replaced to
	// play them.
	ReasonPacksChanged = "PacksChanged"
)

// Condition types of an EvaluationRun.
const (
	// ConditionEnvironmentReady is True while the pool exists and accepts sessions.
	ConditionEnvironmentReady = "EnvironmentReady"
	// ConditionComplete is True when every shard's summary is in the figures, or what trainers were
	// to bring. Its reason is the state that kubectl get prints.
	ConditionComplete = "Complete"
	// ConditionFailed is True when the run has ended without completing. The figures hold what was
	// counted before.
	ConditionFailed = "Failed"
	// ConditionSuspended is True while spec.suspend keeps the run from being played.
	ConditionSuspended = "Suspended"
	// ConditionThresholdsMet says whether the figures of a complete run reach spec.thresholds; it
	// is absent without thresholds.
	ConditionThresholdsMet = "ThresholdsMet"
	// ConditionResultsStored says whether every episode is in the result store; it is absent
	// without spec.results.
	ConditionResultsStored = "ResultsStored"
)

// Reasons of an EvaluationRun's conditions.
const (
	// ReasonEnvironmentAvailable: the pool accepts sessions.
	ReasonEnvironmentAvailable = "EnvironmentAvailable"
	// ReasonNamespaceNotAllowed: the pool's access.allowedNamespaces leaves the run's namespace
	// out.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonTokenMissing: the pool asks for a token, and the run names none that its runners could
	// send.
	ReasonTokenMissing = "TokenMissing"
	// ReasonNotSuspended: the run may be played.
	ReasonNotSuspended = "NotSuspended"
	// ReasonDeadlineExceeded: the run took longer than activeDeadlineSeconds.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonStartDeadlineExceeded: the run could not begin within startDeadlineSeconds.
	ReasonStartDeadlineExceeded = "StartDeadlineExceeded"
	// ReasonThresholdsReached: every figure reaches its threshold.
	ReasonThresholdsReached = "ThresholdsReached"
	// ReasonThresholdsMissed: a figure is below its threshold.
	ReasonThresholdsMissed = "ThresholdsMissed"
	// ReasonThresholdsPending: the run isn't complete, so its figures aren't final.
	ReasonThresholdsPending = "ThresholdsPending"
	// ReasonStored: every episode of the shards that are counted is stored.
	ReasonStored = "Stored"
	// ReasonStoreFailed: some episodes could not be stored. The score stands.
	ReasonStoreFailed = "StoreFailed"
	// ReasonStorePending: shards are still being played.
	ReasonStorePending = "StorePending"
	// ReasonNothingCounted: the run ended before any episode was counted.
	ReasonNothingCounted = "NothingCounted"
	// ReasonEnvironmentNotFound: no CustomerSupportEnv of that name is in the namespace that the
	// run names.
	ReasonEnvironmentNotFound = "EnvironmentNotFound"
	// ReasonEnvironmentNotAvailable: the pool has no server that accepts sessions.
	ReasonEnvironmentNotAvailable = "EnvironmentNotAvailable"
	// ReasonEnvironmentUnreachable: the pool says it is available, but the operator can't read what
	// it offers.
	ReasonEnvironmentUnreachable = "EnvironmentUnreachable"
	// ReasonWaitingForEnvironment: the run begins when the pool is there.
	ReasonWaitingForEnvironment = "WaitingForEnvironment"
	// ReasonQueued: the Job waits until the queue that the run's label names admits it.
	ReasonQueued = "Queued"
	// ReasonRunning: shards are being played.
	ReasonRunning = "Running"
	// ReasonCompleted: every shard's summary is in the figures, or as many episodes of trainers as
	// are wanted.
	ReasonCompleted = "Completed"
	// ReasonCollectionEnded: activeDeadlineSeconds is over, and what trainers have brought is in
	// the figures.
	ReasonCollectionEnded = "CollectionEnded"
	// ReasonLedgerTooLarge: trainers played more scenarios than the sums of one run have room for.
	ReasonLedgerTooLarge = "LedgerTooLarge"
	// ReasonNotFailed: nothing has ended the run early.
	ReasonNotFailed = "NotFailed"
	// ReasonInvalidPlan: the spec asks for a task or scenario that the pool doesn't offer, or for
	// more categories than the status lists.
	ReasonInvalidPlan = "InvalidPlan"
	// ReasonShardsFailed: a shard failed more often than retries.shardBackoffLimit allows.
	ReasonShardsFailed = "ShardsFailed"
	// ReasonRunnersNotStarted: a runner that has a node can't start, because its image can't be
	// pulled, say. After ten minutes the run fails for it.
	ReasonRunnersNotStarted = "RunnersNotStarted"
	// ReasonSummariesLost: the Job is complete, but pods were removed by force before their
	// summaries were counted.
	ReasonSummariesLost = "SummariesLost"
	// ReasonSummaryRefused: a runner's summary didn't prove that the pool graded its episodes.
	ReasonSummaryRefused = "SummaryRefused"
	// ReasonTooManyErrored: more episodes errored than retries.maxErroredPercent allows.
	ReasonTooManyErrored = "TooManyErrored"
	// ReasonEnvironmentChanged: the pool's scenarios, grader, judge or key changed while the run
	// was going on.
	ReasonEnvironmentChanged = "EnvironmentChanged"
)

// Reasons of an EvaluationRun's events that are no condition's.
const (
	// ReasonStarted: the plan is fixed and its shards are being played.
	ReasonStarted = "Started"
	// ReasonProgress: another quarter of the shards is in the figures.
	ReasonProgress = "Progress"
	// ReasonScoresLeftOut: the table of the scenarios' scores is too large, or was changed by
	// somebody else.
	ReasonScoresLeftOut = "ScoresLeftOut"
	// ReasonResumed: suspend is false again, and the shards that are left are played.
	ReasonResumed = "Resumed"
	// ReasonShardsPlayedAgain: shards whose summaries were refused or lost are played again.
	ReasonShardsPlayedAgain = "ShardsPlayedAgain"
	// ReasonRolloutsRefused: a server's segment of rollouts didn't prove that the pool graded it
	// for this run.
	ReasonRolloutsRefused = "RolloutsRefused"
	// ReasonRolloutsDropped: episodes of trainers are in no figure, for their servers had no room
	// left for them.
	ReasonRolloutsDropped = "RolloutsDropped"
	// ReasonRolloutsMissing: a server let go of segments of rollouts that the run hasn't counted.
	// Something else has collected them.
	ReasonRolloutsMissing = "RolloutsMissing"
	// ReasonEpisodesReplayed: episodes began more often than the runner reports, or ended again. A
	// runner that failed explains it, or somebody else plays them.
	ReasonEpisodesReplayed = "EpisodesReplayed"
)
