package v1alpha1

// Condition types of both kinds, which kstatus, Flux, Argo CD and Helm read.
const (
	// ConditionReady is True when the pool or run has reached what its spec asks for: all servers
	// of the pool run the newest template and one accepts sessions, or it needs none; the run is
	// complete and reaches its thresholds. Its reason is the state that kubectl get prints: the
	// worst of all conditions.
	ConditionReady = "Ready"
	// ConditionStalled is True when a run has ended and can't become Ready. Otherwise it is absent.
	ConditionStalled = "Stalled"
)

// Condition types of a CustomerSupportEnv.
const (
	// ConditionAvailable is True while at least one server accepts sessions.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while servers are being created, replaced or removed.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while a fault keeps servers from running. Its message names the
	// fault and the remedy.
	ConditionDegraded = "Degraded"
	// ConditionScalingLimited is True while minReplicas or maxReplicas limits autoscaling. It is
	// absent without autoscaling.
	ConditionScalingLimited = "ScalingLimited"
)

// Reasons of a CustomerSupportEnv's conditions.
const (
	// ReasonServersReady: servers accept sessions.
	ReasonServersReady = "ServersReady"
	// ReasonNoServerReady: no server accepts sessions yet.
	ReasonNoServerReady = "NoServerReady"
	// ReasonServersFull: every running server has its maximum number of sessions.
	ReasonServersFull = "ServersFull"
	// ReasonScaledToZero: the number of servers is 0.
	ReasonScaledToZero = "ScaledToZero"
	// ReasonRollingOut: servers are being replaced, added or removed.
	ReasonRollingOut = "RollingOut"
	// ReasonUpdatePostponed: the servers will be replaced because the operator was updated; other
	// pools are updated first.
	ReasonUpdatePostponed = "UpdatePostponed"
	// ReasonRolledOut: all servers run the newest template.
	ReasonRolledOut = "RolledOut"
	// ReasonProgressDeadlineExceeded: the rolling update exceeded the Deployment's deadline.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonImagePullFailed: the image can't be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonCrashLoop: a server keeps exiting.
	ReasonCrashLoop = "CrashLoop"
	// ReasonStartFailed: a server's container can't be created.
	ReasonStartFailed = "StartFailed"
	// ReasonPodsRefused: the API server refuses the servers' pods, for example because of a quota
	// or a security standard.
	ReasonPodsRefused = "PodsRefused"
	// ReasonNameTaken: another object has a name that the pool or run needs. A run waits until the
	// name is free.
	ReasonNameTaken = "NameTaken"
	// ReasonApplyFailed: the API server refuses one of the pool's objects.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonUnschedulable: no node can run a server or runner, or its scheduler doesn't run.
	ReasonUnschedulable = "Unschedulable"
	// ReasonNodeLost: the node of a server or runner doesn't answer.
	ReasonNodeLost = "NodeLost"
	// ReasonServersUnreachable: servers run, but the operator can't read their statistics.
	ReasonServersUnreachable = "ServersUnreachable"
	// ReasonJudgeNotReady: the judge's endpoint refuses or doesn't answer, so servers accept no
	// sessions. A run waits until the judge can grade.
	ReasonJudgeNotReady = "JudgeNotReady"
	// ReasonLedgerKeyUnreadable: the Secret with the pool's ledger key is missing, or contains a
	// different key.
	ReasonLedgerKeyUnreadable = "LedgerKeyUnreadable"
	// ReasonSuspended: operatingMode or suspend pauses the pool or run.
	ReasonSuspended = "Suspended"
	// ReasonInvalidPack: a changed scenario pack is invalid. Running servers keep the scenarios
	// that they have loaded.
	ReasonInvalidPack = "InvalidPack"
	// ReasonAtMaximum: autoscaling would add servers beyond maxReplicas.
	ReasonAtMaximum = "AtMaximum"
	// ReasonAtMinimum: autoscaling would remove servers below minReplicas.
	ReasonAtMinimum = "AtMinimum"
	// ReasonWithinLimits: the limits allow the number of servers that autoscaling needs.
	ReasonWithinLimits = "WithinLimits"
	// ReasonHealthy: no fault is known.
	ReasonHealthy = "Healthy"
)

// Events of a CustomerSupportEnv that no condition shows.
const (
	// ReasonScaledUp: servers are added.
	ReasonScaledUp = "ScaledUp"
	// ReasonScaledDown: servers are removed after their sessions have ended.
	ReasonScaledDown = "ScaledDown"
	// ReasonDrained: a terminating server has ended its sessions.
	ReasonDrained = "Drained"
	// ReasonSessionsCut: a terminating server cut sessions that exceeded drainTimeoutSeconds, or
	// ended without a report.
	ReasonSessionsCut = "SessionsCut"
	// ReasonPacksChanged: scenario packs have changed, and servers are replaced to load them.
	ReasonPacksChanged = "PacksChanged"
)

// Condition types of an EvaluationRun.
const (
	// ConditionEnvironmentReady is True while the pool exists and accepts sessions.
	ConditionEnvironmentReady = "EnvironmentReady"
	// ConditionComplete is True when every shard's summary, or the requested number of trainers'
	// episodes, is in the figures.
	ConditionComplete = "Complete"
	// ConditionFailed is True when the run has ended without completing. The figures keep the
	// results counted so far.
	ConditionFailed = "Failed"
	// ConditionSuspended is True while spec.suspend keeps the run from being played.
	ConditionSuspended = "Suspended"
	// ConditionThresholdsMet is True if the figures of a complete run reach spec.thresholds. It is
	// absent without thresholds.
	ConditionThresholdsMet = "ThresholdsMet"
	// ConditionCompared is True if a complete run is compared with spec.baselineRef, and Unknown
	// while it waits for that run. It is absent without baselineRef and before the run is complete.
	ConditionCompared = "Compared"
	// ConditionResultsStored is True if every episode is in the result store. It is absent without
	// spec.results.
	ConditionResultsStored = "ResultsStored"
	// ConditionAgentReady is True when a runner has played two turns of a made-up episode with the
	// agent's model as it plays all others. Its message says in what form the endpoint answers and
	// which parts of a request it refuses. It is False if the run failed because the agent's
	// endpoint can't be used. It is absent before the first shard is counted, and for agents that
	// aren't language models.
	ConditionAgentReady = "AgentReady"
	// ConditionPlayedOnce is False if servers have graded an episode again, or begun more attempts
	// than the runners report. Such a run is on no leaderboard. It is absent otherwise.
	ConditionPlayedOnce = "PlayedOnce"
	// ConditionWithinBudget says whether a run that has ended has used more than its budget. It is
	// absent without one.
	ConditionWithinBudget = "WithinBudget"
	// ConditionUnedited is False if somebody has changed the figures of a run that has ended, or
	// has deleted its table of scores. Figures are restored. It is absent otherwise.
	ConditionUnedited = "Unedited"
)

// Reasons of an EvaluationRun's conditions.
const (
	// ReasonEnvironmentAvailable: the pool accepts sessions.
	ReasonEnvironmentAvailable = "EnvironmentAvailable"
	// ReasonNamespaceNotAllowed: the pool's access.allowedNamespaces excludes the run's namespace.
	ReasonNamespaceNotAllowed = "NamespaceNotAllowed"
	// ReasonTrainersNotAllowed: the pool's access.play is RunsOnly, and trainers play the run.
	ReasonTrainersNotAllowed = "TrainersNotAllowed"
	// ReasonTokenMissing: the pool requires a token, and the run has none.
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
	// ReasonCompared: status.baseline shows the difference to the baseline.
	ReasonCompared = "Compared"
	// ReasonNotComparable: the run can't be compared with its baseline. status.baseline.message
	// says why.
	ReasonNotComparable = "NotComparable"
	// ReasonBaselineNotFound: no run has the baseline's name yet.
	ReasonBaselineNotFound = "BaselineNotFound"
	// ReasonWaitingForBaseline: the baseline has not ended yet.
	ReasonWaitingForBaseline = "WaitingForBaseline"
	// ReasonStored: every episode of the counted shards is stored.
	ReasonStored = "Stored"
	// ReasonStoreFailed: some episodes could not be stored. The score isn't affected.
	ReasonStoreFailed = "StoreFailed"
	// ReasonStorePending: shards are still being played.
	ReasonStorePending = "StorePending"
	// ReasonNothingCounted: the run ended before any episode was counted.
	ReasonNothingCounted = "NothingCounted"
	// ReasonEnvironmentNotFound: the CustomerSupportEnv that the run references doesn't exist.
	ReasonEnvironmentNotFound = "EnvironmentNotFound"
	// ReasonEnvironmentNotAvailable: the pool has no server that accepts sessions.
	ReasonEnvironmentNotAvailable = "EnvironmentNotAvailable"
	// ReasonEnvironmentUnreachable: the pool is Available, but the operator can't read which tasks
	// it offers.
	ReasonEnvironmentUnreachable = "EnvironmentUnreachable"
	// ReasonWaitingForEnvironment: the run waits until the pool is available.
	ReasonWaitingForEnvironment = "WaitingForEnvironment"
	// ReasonQueued: the Job waits until the queue that the run's label names admits it.
	ReasonQueued = "Queued"
	// ReasonRunning: shards are being played.
	ReasonRunning = "Running"
	// ReasonCompleted: every shard's summary, or the requested number of trainers' episodes, is in
	// the figures.
	ReasonCompleted = "Completed"
	// ReasonCollectionEnded: activeDeadlineSeconds has passed, and the collected episodes are in
	// the figures.
	ReasonCollectionEnded = "CollectionEnded"
	// ReasonLedgerTooLarge: trainers played more scenarios than the sums of one run can hold.
	ReasonLedgerTooLarge = "LedgerTooLarge"
	// ReasonNotFailed: nothing has ended the run early.
	ReasonNotFailed = "NotFailed"
	// ReasonForbiddenReference: the spec names a Secret or ConfigMap that only the operator or a
	// pool may read.
	ReasonForbiddenReference = "ForbiddenReference"
	// ReasonInvalidPlan: the spec selects a task or scenario that the pool doesn't offer, or more
	// categories than the status can list.
	ReasonInvalidPlan = "InvalidPlan"
	// ReasonShardsFailed: a shard failed more often than retries.shardBackoffLimit allows.
	ReasonShardsFailed = "ShardsFailed"
	// ReasonAgentRefused: the agent's endpoint refuses every request, for example because of a
	// wrong key or model. The message quotes its answer.
	ReasonAgentRefused = "AgentRefused"
	// ReasonAgentUnavailable: the agent's endpoint didn't answer before anything was played.
	ReasonAgentUnavailable = "AgentUnavailable"
	// ReasonRehearsed: two turns of a made-up episode were played with the agent's model.
	ReasonRehearsed = "Rehearsed"
	// ReasonBudgetExceeded: spec.budget was used up before all episodes were played, or was
	// exceeded by the last request.
	ReasonBudgetExceeded = "BudgetExceeded"
	// ReasonEditedByHand: figures of a run that has ended, or its table of scores, were changed or
	// deleted. The message says which.
	ReasonEditedByHand = "EditedByHand"
	// ReasonWithinBudget: the run has used no more than spec.budget allows.
	ReasonWithinBudget = "WithinBudget"
	// ReasonWaitingForCapacity: every session of the pool is in use, and the runners wait for a
	// free one.
	ReasonWaitingForCapacity = "WaitingForCapacity"
	// ReasonSidecarRunning: a runner has ended, but another container keeps its pod running, for
	// example the proxy of a service mesh. The message names it.
	ReasonSidecarRunning = "SidecarRunning"
	// ReasonJobRefused: the API server refuses the run's Job, for example because of a quota. The
	// operator tries again, unless a value of the template isn't valid: then the run fails.
	ReasonJobRefused = "JobRefused"
	// ReasonRunnersRefused: the API server refuses the runners' pods. The Job controller tries
	// again.
	ReasonRunnersRefused = "RunnersRefused"
	// ReasonRunnersNotStarted: a scheduled runner can't start, for example because its image can't
	// be pulled. The run fails after ten minutes.
	ReasonRunnersNotStarted = "RunnersNotStarted"
	// ReasonSummariesLost: the Job is complete, but pods were removed before their summaries were
	// counted.
	ReasonSummariesLost = "SummariesLost"
	// ReasonSummaryRefused: a runner's summary didn't prove that the pool graded its episodes.
	ReasonSummaryRefused = "SummaryRefused"
	// ReasonTooManyErrored: more episodes errored than retries.maxErroredPercent allows.
	ReasonTooManyErrored = "TooManyErrored"
	// ReasonGradedAgain: servers have graded more episodes than the run counts.
	ReasonGradedAgain = "GradedAgain"
	// ReasonUnreportedAttempts: servers have begun more attempts than the runners report and
	// stopped runners could have begun.
	ReasonUnreportedAttempts = "UnreportedAttempts"
	// ReasonEnvironmentChanged: the pool's scenarios, grader, judge or key changed during the run.
	ReasonEnvironmentChanged = "EnvironmentChanged"
)

// Events of an EvaluationRun that no condition shows.
const (
	// ReasonProgress: another quarter of the shards is in the figures.
	ReasonProgress = "Progress"
	// ReasonScoresLeftOut: the table of scenario scores is too large, or another client changed it.
	ReasonScoresLeftOut = "ScoresLeftOut"
	// ReasonResumed: suspend is false again, and the remaining shards are played.
	ReasonResumed = "Resumed"
	// ReasonShardsPlayedAgain: shards whose summaries were refused or lost are played again, and
	// shards that have used their share of the budget go on with what others have left.
	ReasonShardsPlayedAgain = "ShardsPlayedAgain"
	// ReasonRolloutsRefused: a server's segment of rollouts didn't prove that the pool graded it
	// for this run.
	ReasonRolloutsRefused = "RolloutsRefused"
	// ReasonRolloutsDropped: episodes of trainers are in no figure, because their servers had no
	// room for them.
	ReasonRolloutsDropped = "RolloutsDropped"
	// ReasonRolloutsLost: a server ended, or restarted, before its last episodes were collected.
	// The message names it.
	ReasonRolloutsLost = "RolloutsLost"
	// ReasonRolloutsMissing: a server has released segments that the run hasn't counted. Another
	// client has collected them.
	ReasonRolloutsMissing = "RolloutsMissing"
	// ReasonEpisodesReplayed: episodes were started or ended more often than the runner reports,
	// because a runner failed or another client plays them.
	ReasonEpisodesReplayed = "EpisodesReplayed"
)
