//! What a text has in it that counts: clauses, words, targets and tools. The text is read from its beginning to its
//! end, and what comes later takes nothing back of what was counted.

use std::collections::BTreeMap;
use std::mem;

use super::target::{address, closes, is_path, quoted_names, separates};
use super::words::{self, Class};
use super::{LONG_ABOVE, SHORT_BELOW, TARGETS_FULL, ToolFacts};

/// The most bytes of a word that is looked up; a longer one is in no list.
pub(super) const WORD_BYTES_MAX: usize = 64;
/// Different words of one kind that are kept for the reasons.
const WORDS_KEPT: usize = 3;

/// Chunks that end a clause by themselves.
const ARROWS: &[&str] = &["&&", "->", "=>", "|", "→"];

/// A word as the text has it, beside the same word of the lists.
type Said<'q> = (&'static str, &'q str);

/// What a text has in it.
#[derive(Debug, Default)]
pub(super) struct Findings<'q> {
    pub(super) steps: u32,
    pub(super) words: u32,
    pub(super) unknown: u32,
    pub(super) conditions: u32,
    pub(super) loops: u32,
    /// The first different ones, as many as count.
    targets: Vec<&'q str>,
    pub(super) destroys: Vec<Said<'q>>,
    pub(super) publishes: Vec<Said<'q>>,
    pub(super) changes: Vec<Said<'q>>,
    pub(super) reads: Vec<Said<'q>>,
    pub(super) broad: Vec<Said<'q>>,
    pub(super) sensitive: Vec<Said<'q>>,
    /// In the order in which the text names them, each once.
    pub(super) tools: Vec<ToolFacts<'q>>,
}

impl Findings<'_> {
    pub(super) fn target_count(&self) -> u32 {
        u32::try_from(self.targets.len()).unwrap_or(TARGETS_FULL)
    }

    pub(super) fn has_verb(&self) -> bool {
        [&self.destroys, &self.publishes, &self.changes, &self.reads].iter().any(|said| !said.is_empty())
    }

    pub(super) const fn is_short(&self) -> bool {
        self.words < SHORT_BELOW
    }

    pub(super) const fn is_long(&self) -> bool {
        self.words > LONG_ABOVE
    }
}

pub(super) fn read<'q>(query: &'q str, tools: &[ToolFacts<'q>]) -> Findings<'q> {
    let mut reader = Reader::new(tools);
    for line in query.split('\n') {
        reader.line(line.trim());
    }
    reader.end_clause();
    reader.findings
}

/// The place in a text, and what was found up to there.
struct Reader<'q> {
    findings: Findings<'q>,
    /// The tools by their folded names that were not met yet.
    tools: BTreeMap<String, Vec<ToolFacts<'q>>>,
    /// The clause has something to do.
    has_content: bool,
    /// Nothing but words that are passed over came since a joint.
    is_joined: bool,
    /// The last chunk ended with a colon.
    introduces: bool,
    /// The word before, if it is in a list.
    previous: &'static str,
    /// Room for a folded word.
    folded: String,
}

impl<'q> Reader<'q> {
    fn new(tools: &[ToolFacts<'q>]) -> Self {
        let mut by_name: BTreeMap<String, Vec<ToolFacts<'q>>> = BTreeMap::new();
        for tool in tools {
            let mut name = String::new();
            fold(bare(tool.name), &mut name);
            if !name.is_empty() {
                by_name.entry(name).or_default().push(*tool);
            }
        }
        Self {
            findings: Findings::default(),
            tools: by_name,
            has_content: false,
            is_joined: false,
            introduces: false,
            previous: "",
            folded: String::new(),
        }
    }

    fn line(&mut self, line: &'q str) {
        let text = match list_item(line) {
            Some(item) => {
                // What introduces a list is no step of its own.
                self.has_content &= !self.introduces;
                self.end_clause();
                item
            }
            None => line,
        };
        if text.is_empty() {
            self.end_clause();
        }
        quoted_names(text, |name| self.name(name));
        for chunk in text.split_whitespace() {
            self.chunk(chunk);
        }
    }

    /// What stands between two spaces.
    fn chunk(&mut self, chunk: &'q str) {
        if ARROWS.contains(&chunk) {
            self.end_clause();
            return;
        }
        if chunk.chars().all(is_of_word) {
            // Most chunks are a word without anything around it.
            self.tool(chunk);
            self.word(chunk);
            self.introduces = false;
            return;
        }
        if let Some(address) = address(chunk) {
            self.target(address);
        } else {
            for part in chunk.split_inclusive(separates) {
                let piece = part.trim_end_matches(separates);
                if !piece.is_empty() {
                    self.piece(piece);
                }
                self.punctuation(part.chars().next_back());
            }
        }
        let closed = chunk.trim_end_matches(closes);
        self.introduces = closed.ends_with(':');
        if closed.ends_with('.') {
            if !is_abbreviation(closed) {
                self.end_clause();
            }
        } else {
            self.punctuation(closed.chars().next_back());
        }
    }

    fn punctuation(&mut self, last: Option<char>) {
        match last {
            Some(';' | '!' | '?' | '…') => self.end_clause(),
            Some(',') => self.is_joined = true,
            _ => {}
        }
    }

    /// A part of a chunk without punctuation around it: a path, or words.
    fn piece(&mut self, piece: &'q str) {
        let is_tool = self.tool(piece);
        let path = piece.trim_end_matches(['.', ':']);
        if !is_tool && is_path(path) {
            self.target(path);
            return;
        }
        for word in piece.split(|character| !is_of_word(character)).filter(|word| !word.is_empty()) {
            self.word(word);
        }
    }

    fn word(&mut self, spelled: &'q str) {
        let mut folded = mem::take(&mut self.folded);
        folded.clear();
        if spelled.len() <= WORD_BYTES_MAX {
            fold(spelled, &mut folded);
            if folded.is_empty() {
                self.folded = folded;
                return;
            }
        }
        self.findings.words = self.findings.words.saturating_add(1);
        match words::lookup(&folded) {
            Some((class, word)) => {
                let class = words::behind(self.previous, word, class);
                self.previous = word;
                self.known(class, (word, spelled));
            }
            None => {
                if !is_plain(&folded) {
                    self.findings.unknown = self.findings.unknown.saturating_add(1);
                }
                self.previous = "";
                self.content();
            }
        }
        self.folded = folded;
    }

    fn known(&mut self, class: Class, said: Said<'q>) {
        if class.is_verb() && self.is_joined && self.has_content {
            self.step();
        }
        let found = &mut self.findings;
        match class {
            Class::Destroys => keep(&mut found.destroys, said),
            Class::Publishes => keep(&mut found.publishes, said),
            Class::Changes => keep(&mut found.changes, said),
            Class::Reads => keep(&mut found.reads, said),
            Class::Each => {
                found.loops = found.loops.saturating_add(1);
                keep(&mut found.broad, said);
            }
            Class::Whole => keep(&mut found.broad, said),
            Class::Repeats => found.loops = found.loops.saturating_add(1),
            Class::Sensitive => keep(&mut found.sensitive, said),
            Class::Condition => found.conditions = found.conditions.saturating_add(1),
            Class::Connects
            | Class::Joins
            | Class::Opens
            | Class::Particle
            | Class::Latter
            | Class::Common => {}
        }
        match class {
            Class::Connects => self.end_clause(),
            Class::Joins => self.is_joined = true,
            Class::Particle => self.is_joined = false,
            _ if class.is_content() => self.content(),
            _ => {}
        }
    }

    fn content(&mut self) {
        self.has_content = true;
        self.is_joined = false;
    }

    fn end_clause(&mut self) {
        if self.has_content {
            self.step();
        }
        self.has_content = false;
        self.is_joined = false;
    }

    fn step(&mut self) {
        self.findings.steps = self.findings.steps.saturating_add(1);
    }

    fn target(&mut self, target: &'q str) {
        self.name(target);
        self.previous = "";
        self.content();
    }

    fn name(&mut self, target: &'q str) {
        let targets = &mut self.findings.targets;
        let is_room = u32::try_from(targets.len()).is_ok_and(|count| count < TARGETS_FULL);
        if is_room && !targets.contains(&target) {
            targets.push(target);
        }
    }

    /// Notes the tools of this name, and returns whether there are any.
    fn tool(&mut self, piece: &str) -> bool {
        if self.tools.is_empty() {
            return false;
        }
        let name = bare(piece);
        if name.is_empty() {
            return false;
        }
        let mut folded = mem::take(&mut self.folded);
        folded.clear();
        fold(name, &mut folded);
        let met = self.tools.get_mut(folded.as_str()).map(mem::take);
        self.folded = folded;
        let is_tool = met.is_some();
        self.findings.tools.extend(met.unwrap_or_default());
        is_tool
    }
}

fn keep<'q>(kept: &mut Vec<Said<'q>>, said: Said<'q>) {
    if kept.len() < WORDS_KEPT && kept.iter().all(|(word, _)| *word != said.0) {
        kept.push(said);
    }
}

/// The text of a line that is an item of a list.
fn list_item(line: &str) -> Option<&str> {
    let digits = line.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => line.strip_prefix(['-', '*', '+', '•'])?,
        1..=3 => line.get(digits..)?.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim_start())
}

/// Returns whether a chunk with a full stop at its end is one such as `e.g.`, which ends no sentence.
fn is_abbreviation(chunk: &str) -> bool {
    let letters = chunk.strip_suffix('.').unwrap_or(chunk);
    letters.contains('.') && letters.split('.').all(|letter| letter.chars().count() == 1)
}

/// A name without the punctuation around it.
fn bare(name: &str) -> &str {
    name.trim_matches(|character: char| !is_of_word(character))
}

/// Returns whether a word needs no list: a number, or a single letter.
fn is_plain(folded: &str) -> bool {
    let mut characters = folded.chars();
    let is_single = characters.next().is_some() && characters.next().is_none();
    is_single || (!folded.is_empty() && folded.chars().all(char::is_numeric))
}

fn is_of_word(character: char) -> bool {
    without_accent(character).is_some() || character.is_alphanumeric() || is_dropped(character)
}

/// Returns whether a character is none of its own: an accent behind its letter, or one without a width.
const fn is_dropped(character: char) -> bool {
    matches!(
        character,
        '\u{300}'..='\u{36f}' | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}'
    )
}

/// Appends a text in small letters and without accents.
fn fold(text: &str, folded: &mut String) {
    if text.is_ascii() {
        folded.push_str(text);
        folded.make_ascii_lowercase();
        return;
    }
    for character in text.chars() {
        match without_accent(character) {
            Some(letter) => folded.push(letter),
            None => folded.extend(character.to_lowercase().filter(|small| !is_dropped(*small))),
        }
    }
}

/// The small letter without its accent, for the letters of western languages.
const fn without_accent(letter: char) -> Option<char> {
    Some(match letter {
        'a'..='z' => letter,
        'à'..='å' | 'À'..='Å' => 'a',
        'è'..='ë' | 'È'..='Ë' => 'e',
        'ì'..='ï' | 'Ì'..='Ï' => 'i',
        'ò'..='ö' | 'Ò'..='Ö' => 'o',
        'ù'..='ü' | 'Ù'..='Ü' => 'u',
        'ý' | 'ÿ' | 'Ý' | 'Ÿ' => 'y',
        'ç' | 'Ç' => 'c',
        'ñ' | 'Ñ' => 'n',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_lists_are_told_from_text() {
        for (line, item) in
            [("- a b", "a b"), ("*", ""), ("• a", "a"), ("1. a", "a"), ("12) a", "a"), ("3.", "")]
        {
            assert_eq!(list_item(line), Some(item), "{line}");
        }
        for line in ["", "-a", "a", "1.5 a", "1", "2024. a", "**a**"] {
            assert_eq!(list_item(line), None, "{line}");
        }
    }
}
