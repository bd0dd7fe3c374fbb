//! What is wrong with a script, collected within bounded memory.

use capataz_contracts::v1::ScriptViolation;

/// The most violations that are reported; how many there are beyond them is counted.
const REPORTED: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Findings {
    reported: Vec<ScriptViolation>,
    beyond: usize,
}

impl Findings {
    pub(crate) fn push(&mut self, path: String, action_id: &str, rule: &str, message: String) {
        if self.reported.len() >= REPORTED {
            self.beyond += 1;
            return;
        }
        let violation = ScriptViolation {
            path,
            action_id: crate::text::shortened(action_id, 128),
            rule: rule.to_owned(),
            message,
        };
        self.reported.push(violation);
    }

    /// The number of violations, by which a reader can tell that a part added some.
    pub(crate) fn count(&self) -> usize {
        self.reported.len() + self.beyond
    }

    /// The violations in the order in which they were met; where there are too many, the last one says how many more.
    pub(crate) fn into_vec(self) -> Vec<ScriptViolation> {
        let mut violations = self.reported;
        if self.beyond > 0 {
            violations.push(ScriptViolation {
                rule: "truncated".to_owned(),
                message: format!("… and {} more", self.beyond),
                ..ScriptViolation::default()
            });
        }
        violations
    }
}
