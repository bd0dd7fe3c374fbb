//! Quarantine: the fact that a run is not to be worked on.

use crate::port::{Millis, Position};

/// The reason why a run is not to be worked on. It is a fact of the store and not an event of the run, because the run's
/// log may be what is wrong; and it can be taken back.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Quarantine {
    pub reason: QuarantineReason,
    /// The number of the last event that is known to be whole; 0 if there is none.
    pub seq: u64,
    /// The position of the row that is wrong, where there is one.
    pub position: Option<Position>,
    /// An explanation for people.
    pub detail: String,
    pub at: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum QuarantineReason {
    /// The run's log cannot be read as it was written.
    Damaged,
    /// A decision about the run panicked.
    Panicked,
    /// What was decided about the run does not fit its log, again and again.
    Conflicted,
}

impl QuarantineReason {
    const ALL: [Self; 3] = [Self::Damaged, Self::Panicked, Self::Conflicted];

    /// The number that adapters store.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            Self::Damaged => 1,
            Self::Panicked => 2,
            Self::Conflicted => 3,
        }
    }

    /// The name that people and programs are told.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Panicked => "panicked",
            Self::Conflicted => "conflicted",
        }
    }

    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_survives_its_number() {
        for reason in QuarantineReason::ALL {
            assert_eq!(QuarantineReason::from_number(reason.number()), Some(reason));
        }
        assert_eq!([0, 4].map(QuarantineReason::from_number), [None, None]);
    }
}
