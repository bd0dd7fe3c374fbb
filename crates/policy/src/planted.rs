//! Faults that the simulator plants into this production code to prove that it would catch them.
//!
//! Without the feature `planted-faults` [`is`] is a constant `false` and every fault is compiled away.

/// A fault that a correct build never has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    AcknowledgeBeforeCommit = 1,
    NoFenceCheck,
    TokenReusedAfterRecovery,
    TimerNotRearmed,
    SeamOffByOne,
    TopicOverheard,
    EndOfOneRunEndsAll,
    AppendRepeatedAfterUnknown,
    SnapshotMissesField,
    LateResultAfterCancelAccepted,
    StaleAnswerAccepted,
    JoinedAppendLosesItsMark,
    SessionSnapshotAheadOfTheLog,
    ActionRepeatedAfterUnknownOutcome,
    LeaseGrantedWhileDraining,
    SweepRemovesASessionInUse,
    RefusedAskLeavesItsTurn,
    SlotOfferedTwice,
    ReturnedSlotLost,
    LostMessageUnnoticed,
    DeadlineFromTheWallAlone,
    ClockForgottenWithTheShard,
    /// After a restart, asks that wait have their turns in the order of their ids, which follow a clock that may be set.
    TurnsByIds,
    /// A plan of a session begins without waiting for its turn.
    PlanBeginsOutOfTurn,
    /// The state of a session's work is not written when a wave begins.
    WaveLeavesNoPhase,
    MarkNotChecked,
    RestForgetsItsDeadline,
    RowWithoutItsEvent,
    OldRevisionAnswered,
    TouchedRunNotFoldedAgain,
    ChildCreatedBeforeItIsNamed,
    ChildEndLost,
    ChildEndCountedTwice,
    /// A child is created under a second id as well.
    ChildStartedTwice,
    AppendWithoutItsRows,
    /// What an event leaves in memory is not written with it.
    MemoryWithoutItsRows,
    /// What is recalled for a prompt is read before the events before it are durable.
    RecalledBeforeItsEvents,
    AnotherHostGetsTheBrowser,
    KeyRegisteredAfterItsRun,
    VerdictOfAnotherValue,
    OutputNotJudged,
    VerdictSkippedAfterRestart,
    CorrectionLost,
    RollbackKeepsLease,
    /// An execution in the mode `simple` goes on after three errors in a row.
    ErrorLimitNotKept,
    /// A tool is called before the person has approved that.
    ToolCalledUnapproved,
    /// That a plan is made anew is not recorded as such: errors are not counted anew, and no checkpoint is made.
    ReplanForgotten,
    /// Errors in a row are not counted anew for a new plan.
    ReplanKeepsErrors,
    /// A tool that nobody serves is called all the same.
    AbsentToolCalled,
    /// A checkpoint that is made while a call that cannot be undone is at work may be gone back to.
    CheckpointForgetsTheCall,
    ForkKeepsLeases,
    ForkDeliversTwice,
    AssignedWhileDraining,
    /// A worker is told the span of the run for that of its lease.
    SpanOfTheRun,
    /// A child is in a trace of its own.
    ChildLeavesTheTrace,
    /// What a worker says of a lease that it has lost is shown as said of the present one.
    LogOfALostLease,
    HandedBackAtOnce,
    KeptHistorySkipped,
    RemovedEventsSkipped,
    SweepBelievesTheClock,
    StallTakenForSilence,
    /// Only the table of codes makes a failure CRITICAL, not its worker or its plan.
    DeclaredCriticalGoesOn,
    WaitersWithoutBound,
    RingForgetsNothing,
    DeadlineQuestionStays,
    LifecycleNotAsked,
    /// What a task has shown at its deadline is forgotten where nothing newer is seen.
    ShownIsForgotten,
    /// A child's failure is as severe as what caused it, not as the child says.
    SeverityOfTheCause,
    /// A share exactly at the threshold is not a quorum.
    QuorumNeedsMore,
    /// A reader hears of work whose lease is not durable yet.
    HealthBeforeItsLease,
    /// A task that is taken back begins anew in the same activation.
    TakenBackIsNotNew,
    /// A failed task that a person skips stays FAILED.
    SkippedIsNotDeleted,
    /// What a large answer asks to be kept is not kept.
    LargeAnswerLeavesNothing,
    IdleSessionsWithoutBound,
    /// A task is warned of its deadline when a whole minute is left.
    WarnedWithAMinuteLeft,
    /// That a state was repaired is not recorded where the session has that state already.
    RepairUntold,
    /// What succeeded before is taken over although its input refers to what is done again.
    TakenOverWithNewInput,
    /// Slots are offered for an agent that a rate limit holds.
    HeldAgentIsOffered,
    /// A run is folded again without its newest event.
    ReplayStopsEarly,
    /// What waits for the browser of an execution stays where that is lost.
    CallWaitsForALostBrowser,
    /// A run is in the mode `simple` whatever its session has chosen.
    ChosenModeIgnored,
    /// What a person has had forgotten has no rows.
    ForgottenStays,
    /// A call that a person has approved leaves for its worker before the approval is durable.
    CallBeforeItsApprovalIsDurable,
    /// Memory has an entry that no event tells.
    MemoryRowWithoutItsEvent,
    /// What was resolved outside for a task is not what it is given.
    InputReadOutsideIsLost,
    /// What a host has at work is not counted once it has said anew what it serves.
    HelloAgainForgetsWork,
    /// An `ExecutorError` without its obligatory evidence is recorded as it came.
    ErrorRecordedAsItCame,
    /// A completion counts for a task that nobody was ever given.
    CompletedInInit,
    /// What is asked of sessions that were not read yet may have any number of bytes.
    CommandsWithoutBound,
    /// A timeout is not among the results of its wave.
    TimeoutsUncounted,
    /// That an entry of memory was useful is no vote on it.
    UsefulIsNoVote,
    /// Where a sweep has more to do after its first part, nobody asks for another one.
    SweepEndsWithItsFirstPart,
    /// What a person lets run again after its time was over has none.
    AgainWithoutTime,
    /// That an action of a script is done, as a person says, is no event of the script.
    GivenOutcomeUntold,
}

impl Fault {
    pub const ALL: [Fault; 94] = [
        Fault::AcknowledgeBeforeCommit,
        Fault::NoFenceCheck,
        Fault::TokenReusedAfterRecovery,
        Fault::TimerNotRearmed,
        Fault::SeamOffByOne,
        Fault::TopicOverheard,
        Fault::EndOfOneRunEndsAll,
        Fault::AppendRepeatedAfterUnknown,
        Fault::SnapshotMissesField,
        Fault::LateResultAfterCancelAccepted,
        Fault::StaleAnswerAccepted,
        Fault::JoinedAppendLosesItsMark,
        Fault::SessionSnapshotAheadOfTheLog,
        Fault::ActionRepeatedAfterUnknownOutcome,
        Fault::LeaseGrantedWhileDraining,
        Fault::SweepRemovesASessionInUse,
        Fault::RefusedAskLeavesItsTurn,
        Fault::SlotOfferedTwice,
        Fault::ReturnedSlotLost,
        Fault::LostMessageUnnoticed,
        Fault::DeadlineFromTheWallAlone,
        Fault::ClockForgottenWithTheShard,
        Fault::TurnsByIds,
        Fault::PlanBeginsOutOfTurn,
        Fault::WaveLeavesNoPhase,
        Fault::MarkNotChecked,
        Fault::RestForgetsItsDeadline,
        Fault::RowWithoutItsEvent,
        Fault::OldRevisionAnswered,
        Fault::ChildCreatedBeforeItIsNamed,
        Fault::ChildEndLost,
        Fault::ChildEndCountedTwice,
        Fault::ChildStartedTwice,
        Fault::AppendWithoutItsRows,
        Fault::MemoryWithoutItsRows,
        Fault::RecalledBeforeItsEvents,
        Fault::TouchedRunNotFoldedAgain,
        Fault::AnotherHostGetsTheBrowser,
        Fault::KeyRegisteredAfterItsRun,
        Fault::VerdictOfAnotherValue,
        Fault::OutputNotJudged,
        Fault::VerdictSkippedAfterRestart,
        Fault::CorrectionLost,
        Fault::RollbackKeepsLease,
        Fault::ErrorLimitNotKept,
        Fault::ToolCalledUnapproved,
        Fault::ReplanForgotten,
        Fault::ReplanKeepsErrors,
        Fault::AbsentToolCalled,
        Fault::CheckpointForgetsTheCall,
        Fault::ForkKeepsLeases,
        Fault::ForkDeliversTwice,
        Fault::AssignedWhileDraining,
        Fault::SpanOfTheRun,
        Fault::ChildLeavesTheTrace,
        Fault::LogOfALostLease,
        Fault::HandedBackAtOnce,
        Fault::KeptHistorySkipped,
        Fault::RemovedEventsSkipped,
        Fault::SweepBelievesTheClock,
        Fault::StallTakenForSilence,
        Fault::DeclaredCriticalGoesOn,
        Fault::WaitersWithoutBound,
        Fault::RingForgetsNothing,
        Fault::DeadlineQuestionStays,
        Fault::LifecycleNotAsked,
        Fault::ShownIsForgotten,
        Fault::SeverityOfTheCause,
        Fault::QuorumNeedsMore,
        Fault::HealthBeforeItsLease,
        Fault::TakenBackIsNotNew,
        Fault::SkippedIsNotDeleted,
        Fault::LargeAnswerLeavesNothing,
        Fault::IdleSessionsWithoutBound,
        Fault::WarnedWithAMinuteLeft,
        Fault::RepairUntold,
        Fault::TakenOverWithNewInput,
        Fault::HeldAgentIsOffered,
        Fault::ReplayStopsEarly,
        Fault::CallWaitsForALostBrowser,
        Fault::ChosenModeIgnored,
        Fault::ForgottenStays,
        Fault::CallBeforeItsApprovalIsDurable,
        Fault::MemoryRowWithoutItsEvent,
        Fault::InputReadOutsideIsLost,
        Fault::HelloAgainForgetsWork,
        Fault::ErrorRecordedAsItCame,
        Fault::CompletedInInit,
        Fault::CommandsWithoutBound,
        Fault::TimeoutsUncounted,
        Fault::UsefulIsNoVote,
        Fault::SweepEndsWithItsFirstPart,
        Fault::AgainWithoutTime,
        Fault::GivenOutcomeUntold,
    ];
}

#[cfg(feature = "planted-faults")]
static ACTIVE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants one fault, or none, for the whole process.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Option<Fault>) {
    ACTIVE.store(fault.map_or(0, |fault| fault as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Returns whether this fault is planted.
#[cfg(feature = "planted-faults")]
#[must_use]
pub fn is(fault: Fault) -> bool {
    ACTIVE.load(std::sync::atomic::Ordering::Relaxed) == fault as u8
}

/// Returns whether this fault is planted: never.
#[cfg(not(feature = "planted-faults"))]
#[must_use]
#[inline(always)]
pub const fn is(_: Fault) -> bool {
    false
}
