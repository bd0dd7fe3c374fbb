//! The tests that have caught mutants: what has caught one may well catch the next one beside it, and takes no time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

use super::Mutant;

/// Tests that are remembered for each file, and for each package: the last ones.
const KILLERS: usize = 12;

/// A test that has caught a mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Killer {
    binary: String,
    name: String,
}

impl Killer {
    /// The first test that has failed, by what nextest has told.
    pub(super) fn told(log: &str) -> Option<Self> {
        let failed = log.lines().find_map(|line| line.trim_start().strip_prefix("FAIL ["))?;
        let (_, test) = failed.split_once(']')?;
        let test = test.trim_start();
        // Its number, where nextest tells it.
        let test =
            test.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(test, |(_, test)| test);
        let (binary, name) = test.trim().split_once(' ')?;
        Some(Self { binary: binary.to_owned(), name: name.to_owned() })
    }

    /// It alone, in nextest's words.
    pub(super) fn filter(&self) -> String {
        format!("(binary_id(={}) & test(={}))", self.binary, self.name)
    }
}

/// The last ones of each file and of each package.
#[derive(Debug, Default)]
pub(super) struct Killers(Mutex<BTreeMap<String, VecDeque<Killer>>>);

impl Killers {
    /// The tests that are likely to catch a mutant.
    pub(super) fn likely(&self, mutant: &Mutant) -> BTreeSet<Killer> {
        let killers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let places = [&mutant.file, &mutant.package];
        places.iter().filter_map(|place| killers.get(*place)).flatten().cloned().collect()
    }

    /// The test has caught this mutant.
    pub(super) fn note(&self, mutant: &Mutant, killer: &Killer) {
        let mut killers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for place in [&mutant.file, &mutant.package] {
            let of_place = killers.entry(place.clone()).or_default();
            of_place.retain(|known| known != killer);
            of_place.push_front(killer.clone());
            of_place.truncate(KILLERS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_test_that_has_failed_is_found_in_what_nextest_tells() {
        let log = "────────\n        FAIL [   0.007s] ( 1/11) capataz-engine::it fold::it_folds\n  stderr ───\n\
                   FAIL [ 1.0s] capataz-engine other\n";
        let killer = Killer::told(log).unwrap();
        assert_eq!(killer.filter(), "(binary_id(=capataz-engine::it) & test(=fold::it_folds))");
        let without_number = Killer::told("FAIL [   0.007s] capataz-engine other").unwrap();
        assert_eq!(without_number.filter(), "(binary_id(=capataz-engine) & test(=other))");
        assert_eq!(Killer::told("Summary [ 1.0s] 3 tests run: 3 passed"), None);
    }

    #[test]
    fn the_last_killers_of_a_file_and_of_its_package_are_likely_and_of_no_other_one() {
        let mutant = |package: &str, file: &str| Mutant {
            file: file.to_owned(),
            name: String::new(),
            package: package.to_owned(),
            function: (1, 1),
            genre: String::new(),
            replacement: String::new(),
        };
        let killer = |number: usize| Killer { binary: "b".to_owned(), name: number.to_string() };
        let killers = Killers::default();
        for number in 0..=KILLERS {
            killers.note(&mutant("engine", "a.rs"), &killer(number));
        }
        killers.note(&mutant("engine", "b.rs"), &killer(99));
        let likely = |package, file| killers.likely(&mutant(package, file));
        // The first one is forgotten, of the file; of the package the second one is as well.
        assert_eq!(likely("engine", "a.rs"), (1..=KILLERS).chain([99]).map(killer).collect());
        assert_eq!(likely("engine", "c.rs"), (2..=KILLERS).chain([99]).map(killer).collect());
        assert_eq!(likely("store", "a.rs"), (1..=KILLERS).map(killer).collect());
        assert_eq!(likely("store", "c.rs"), BTreeSet::new());
    }
}
