//! What must hold in every world, by name.

use std::fmt;

macro_rules! invariants {
    ($($name:ident: $sentence:literal;)*) => {
        /// The closed list of what the simulator checks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Invariant {
            $(#[doc = $sentence] $name,)*
        }

        impl Invariant {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// What it says, in one sentence.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)* }
            }
        }
    };
}

invariants! {
    GaplessSeq: "The log of a run numbers its events 1, 2, 3 … and its time never goes backwards.";
    LogStays: "What was once durable is in the store with the same bytes, after any crash.";
    ExactlyOnce: "A subscriber gets every durable event after its cursor that its filter matches, once and in order.";
    KeptIsDelivered: "What is kept is delivered from every cursor that was ever given out; a subscriber that would miss what was removed since its stream began is told so, and no other is.";
    NoEffectBeforeCommit: "No reply, frame, publication or snapshot leaves before the events that it tells of are durable.";
    OneRunPerKey: "An idempotency key names one run, whatever is lost and repeated.";
    OneEventPerRequest: "A request is carried out once, and every answer to it names the same event.";
    EveryRequestAnswered: "Every request gets exactly one answer, unless its daemon dies.";
    OneTerminalEvent: "A run ends once, and nothing happens to it afterwards.";
    OneSettlement: "An activation of a task settles exactly once.";
    OneSeverity: "A failure has one severity, that of the plan, of whoever failed or of the table, wherever it is told or counted.";
    CriticalAborts: "A CRITICAL failure of a plan's task is not tried again, and ends the run at once.";
    LifecycleIsKept: "A task enters only states that the lifecycle allows after the one before.";
    TakenOver: "What succeeded in the run that is continued is not done again, and its result is what it was, unless it was taken back or its input refers to what is done again.";
    SettledByLiveLease: "A result counts only under the live lease of its holder; without a lease only for a listed reason.";
    OneLiveLease: "A task has at most one live lease.";
    NoLeaseWhileHeld: "Nothing is leased while the run is paused, waits for an answer, or ends.";
    TokensIncrease: "Fencing tokens of a run strictly increase, over restarts too.";
    NoLateSuccess: "After a cancel that was not withdrawn, a result no longer succeeds.";
    AtMostOnce: "Work that must run at most once is not begun again while the outcome of its last beginning is unknown.";
    OutputsPassTheirSchema: "What a worker gives back counts only if it passes what its agent declares, and is refused for that only if it does not.";
    PhasesInOrder: "A phase begins when all before it are completed, is completed by outputs that count, and goes on or back as people say.";
    PhasesGetWhatCounts: "What a phase is given, and what goes on of it, is made of what counts, and of nothing else.";
    CorrectionsAreGiven: "An attempt after a rejected output is given what was wrong with it.";
    RollbackEndsWork: "When a pipeline or an execution goes back, nothing of it is at work any more.";
    ModesKeepTheirRules: "An execution asks its planner, calls tools, makes plans anew, asks people and ends as its mode, its counts and its people say.";
    AnswersWhatIsAsked: "An answer counts for the revision of the question that its sender has seen, and its value is what the task gives back.";
    DeadlineAnswered: "What becomes of a task whose time is over is what a person has answered in time; nobody is asked about it after its end.";
    AnswersPassTheirSchema: "A question for the output of a task has the schema that its worker declared, and no answer whose value breaks it ever counts.";
    ActionsOnce: "An action that must not be repeated is sent to a page once, whatever is lost, unless a person says so.";
    AsksInOrder: "An ask begins in its turn, and calls each spec at most once and for a reason that its log shows.";
    Transitions: "What becomes of a transition in an answer follows from the bands, the window and the answer alone.";
    SessionTurns: "Each ask of a session that has ended is one turn of it, durable with its end, and says what was said.";
    WorkFollowsThePlan: "The state of a session's work says, durable with each step of the plan at work, in which phase it is, and has one entry of the history for each plan that has ended.";
    TurnsInOrder: "Asks of a session have their turns in the order in which they were accepted, over restarts too.";
    SessionContexts: "Asks of a session begin one at a time, each with what the session's stream folds to.";
    ScriptInOrder: "The activities of a script follow from one another, and a proposal is performed or the run has ended.";
    BrowserIsTheRuns: "No activity of an open browser is given to another worker than the one that opened it, and none is done in another browser.";
    ScriptFailures: "Retry, recovery, going on and halting follow from the script's policy and from what was sent to the page.";
    SessionsHaveAnEnd: "A session that waits for a proposal has a time at which it is closed if none comes.";
    ErrorsAreWhole: "A failed action is recorded with all that its code obliges to; what a host tells with less is recorded as EVIDENCE_FAILED and holds what was told.";
    NothingBegunWhileDraining: "A daemon that drains creates no run, gives no lease and no ask its turn, and sends no assignment.";
    SweepsAreAllowed: "Retention removes whole runs that have finished long enough ago, and sessions that nobody uses.";
    SweepsGoOn: "A sweep that is over has left no run that was due for all of its parts, and that nobody needs.";
    YoungIsKept: "Retention removes only what is as old as it has to be by the time that has really passed, whatever the clock on the wall says.";
    ForksAreTheirBase: "A fork begins with the events of the run that it was forked from, byte for byte, and none of that run's leases, children or browsers lives on in it.";
    ChildrenAreNamed: "A run that is a task is created after its parent's log has named it, for that attempt, and once.";
    SpansAreNamed: "Work is given with the span of its lease, in the trace of whoever started its run; a run that is a task belongs to the span that waits for it.";
    ChildrenHeardOnce: "A parent hears the end of each child once, as it was, and ends after that.";
    InputsAreResolved: "A task is given its input with what its references read in their places, however much that is.";
    WavesInOrder: "A wave begins when the one before it has finished, and finishes when all of its tasks have settled.";
    PolicyOutcome: "Evaluations and outcomes equal a direct evaluation of the policy over the settled results.";
    AttemptsCounted: "Attempts are numbered without gaps and never exceed the retry policy.";
    ClockKeepsTime: "A run's own clock goes as fast as time while a process has the run, and while none has, no further than the clock on the wall.";
    HandedBackWaits: "A task that workers hand back again and again is offered again only after a pause, longer each time.";
    HeldAgentsRest: "No slot is offered for an agent while a rate limit holds it.";
    NoEarlyTimeout: "A task times out at its deadline or later.";
    WarnedInTime: "A task is warned of each of its deadlines once at most, and when less than a minute is left.";
    SnapshotFaithful: "A snapshot with the events after it equals the fold of the whole log.";
    StateMatchesLog: "With nothing in flight, a shard's state equals the fold of the log.";
    ReplayAgrees: "Whoever folds a run again finds all of its events, and nothing stored of it that they do not say.";
    ListMatchesLog: "The list of runs says of a run whether it has finished, when it changed last, and how many tasks have settled, as its log does.";
    MemoryFollows: "What is remembered follows from events: types, votes and what was gone back on; a prompt has what the seed's query of its mode finds, as far as its tokens go.";
    DerivedMatchLog: "A run has exactly the derived rows that follow from its events, and all rows that queries read can be made again from the log.";
    OnlyDamagedAreQuarantined: "A run is in quarantine where its log is damaged, until the first claim after its bytes are restored; and no other is.";
    RestsWhenIdle: "A run that is not in memory has no live lease, and nothing of it waits for a worker that could have it.";
    SlotsMatchLeases: "The core holds exactly the leases that are live, and a worker never has more work than slots.";
    WorkersAreTold: "A worker that holds a live lease, and to which nothing is on its way, knows its deadline and whether it was cancelled.";
    NoAppendAfterUnknown: "After a commit of unknown outcome nothing is appended before the shard is read again.";
    OnlyTouchedAreRead: "After a failed commit those runs are read again, and no others, of which something was in flight.";
    OwnStallIsForgiven: "A worker is taken for silent only if it said nothing for as long as the limit while the daemon listened, however long the daemon itself stood still.";
    MemoryIsBounded: "What is kept for subscribers, and for callers that wait, has its bounds, whatever they leave unread.";
    StreamsKept: "A shard that is read again closes no worker's stream.";
    RestartHasCause: "The shard is read again only after a failed commit, or where somebody wants a run tried again.";
    FencedIsSilent: "A daemon that lost its shard acknowledges, sends and publishes nothing more.";
    TimersFire: "A wake at the time that the core asked for leaves nothing that is still due, twice in a row.";
    EndsInTime: "When faults stop, every run ends within bounded virtual time.";
    ReadersReachEnd: "When faults stop, every subscriber reaches the end of the log.";
    SameTrace: "The same seed gives the same trace.";
    NoPanic: "Nothing panics.";
}

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: Invariant,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.invariant.name(), self.detail)
    }
}

impl std::error::Error for Violation {}

impl Invariant {
    /// This invariant's violation, as an error.
    pub fn broken<T>(self, detail: impl Into<String>) -> Result<T, Violation> {
        Err(Violation { invariant: self, detail: detail.into() })
    }

    /// An error with `detail` unless `holds`.
    pub fn check(self, holds: bool, detail: impl FnOnce() -> String) -> Result<(), Violation> {
        if holds { Ok(()) } else { Err(Violation { invariant: self, detail: detail() }) }
    }
}
