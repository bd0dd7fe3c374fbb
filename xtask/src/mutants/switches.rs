//! Puts mutants into the text of a file, each behind a switch of its own, so that one build holds all of them.
//!
//! Text is added and none is taken away, and no line break is added: places are those of the original. A mutant means what it
//! means when `cargo-mutants` writes it into the text: what an operator becomes may bind otherwise than it did, so the whole
//! chain of operators around it is written once more. What has no switch is left out, and is tried by a build of its own:
//! constants, the insides of macros, functions that return `impl Trait`, operators that a `let` hangs on, left-out fields.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ExprBinary, Pat, ReturnType, Signature};

/// What tells a build which mutant is on.
pub const VARIABLE: &str = "CAPATAZ_MUTANT";

/// What a crate's `lib.rs` begins with: whatever a mutant leaves unused is nobody's concern.
pub const TOP: &str = "#![allow(warnings, unused_must_use)] ";

/// What a crate's `lib.rs` ends with.
pub fn module() -> String {
    format!(
        "\n#[doc(hidden)]\npub mod mutant_switch {{\n    static ON: std::sync::LazyLock<u32> = std::sync::LazyLock::new(|| \
         {{\n        std::env::var(\"{VARIABLE}\").ok().and_then(|on| on.parse().ok()).unwrap_or(0)\n    }});\n\n    \
         #[inline]\n    pub fn is(number: u32) -> bool {{\n        *ON == number\n    }}\n}}\n"
    )
}

/// A mutant that is to get a switch.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// By which it is turned on, from 1.
    pub number: u32,
    /// The kind, in the word of cargo-mutants.
    pub genre: &'a str,
    pub replacement: &'a str,
    /// Where it begins, in lines and characters from 1.
    pub place: (usize, usize),
}

/// The text of a file with its switches.
#[derive(Debug, Default)]
pub struct Switched {
    pub text: String,
    /// The mutants that have got one.
    pub put_in: BTreeSet<u32>,
    /// What was added for the sake of a mutant, in bytes of this text. Some of it serves many.
    pieces: Vec<(Range<usize>, u32)>,
    /// From the first to the last byte that a switch has added, with its mutants: the original is in between.
    regions: Vec<(Range<usize>, BTreeSet<u32>)>,
}

impl Switched {
    /// The text without any.
    pub fn unchanged(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// The same with text before and behind it.
    pub fn framed(mut self, top: &str, end: &str) -> Self {
        self.text = format!("{top}{}{end}", self.text);
        let ranges = self.pieces.iter_mut().map(|(range, _)| range);
        for range in ranges.chain(self.regions.iter_mut().map(|(range, _)| range)) {
            *range = range.start + top.len()..range.end + top.len();
        }
        self
    }

    /// The mutants whose own text these bytes are in.
    pub fn around(&self, bytes: &Range<usize>) -> BTreeSet<u32> {
        let is_around = |piece: &Range<usize>| piece.start <= bytes.start && bytes.end <= piece.end;
        self.pieces.iter().filter(|(piece, _)| is_around(piece)).map(|(_, number)| *number).collect()
    }

    /// The mutants whose text is in these bytes, or partly.
    pub fn within(&self, bytes: &Range<usize>) -> BTreeSet<u32> {
        let meets = |piece: &Range<usize>| piece.start < bytes.end && bytes.start < piece.end;
        self.pieces.iter().filter(|(piece, _)| meets(piece)).map(|(_, number)| *number).collect()
    }

    /// The mutants of the innermost switch that these bytes of the original are behind.
    pub fn behind(&self, bytes: &Range<usize>) -> BTreeSet<u32> {
        let around =
            self.regions.iter().filter(|(range, _)| range.start <= bytes.start && bytes.end <= range.end);
        let innermost = around.min_by_key(|(range, _)| range.len());
        innermost.map(|(_, numbers)| numbers.clone()).unwrap_or_default()
    }
}

/// The text with a switch for each of these mutants that can have one.
pub fn put_in(text: &str, wanted: &[Wanted<'_>]) -> Result<Switched, syn::Error> {
    let mut places: BTreeMap<usize, Vec<Wanted<'_>>> = BTreeMap::new();
    for mutant in wanted {
        if let Some(at) = offset(text, mutant.place) {
            places.entry(at).or_default().push(*mutant);
        }
    }
    let file = syn::parse_file(text)?;
    let mut switcher = Switcher { text, places, insertions: Vec::new(), switches: 0 };
    switcher.visit_file(&file);
    Ok(switcher.written())
}

/// The byte at which this line and character begin, both counted from 1.
fn offset(text: &str, (line, column): (usize, usize)) -> Option<usize> {
    let mut lines = text.split_inclusive('\n');
    let before: usize = lines.by_ref().take(line.checked_sub(1)?).map(str::len).sum();
    let (within, _) = lines.next()?.char_indices().nth(column.checked_sub(1)?)?;
    Some(before + within)
}

/// Text that a switch adds at one place.
struct Insertion {
    at: usize,
    /// At one place, what ends comes first, and the inner before the outer; then what begins, the outer before the inner.
    order: (bool, i64),
    switch: i64,
    /// Each part with the mutants that it is for.
    parts: Vec<(String, Vec<u32>)>,
}

struct Switcher<'a> {
    text: &'a str,
    /// The mutants that begin at a byte.
    places: BTreeMap<usize, Vec<Wanted<'a>>>,
    insertions: Vec<Insertion>,
    switches: i64,
}

impl<'a> Switcher<'a> {
    fn wanted(&self, genre: &str, at: usize) -> Vec<Wanted<'a>> {
        let here = self.places.get(&at).into_iter().flatten();
        here.filter(|mutant| mutant.genre == genre).copied().collect()
    }

    fn slice(&self, range: Range<usize>) -> &'a str {
        self.text.get(range).unwrap_or_default()
    }

    /// Adds text at the first of these bytes, and other text behind the last.
    fn surround(&mut self, range: &Range<usize>, open: Vec<(String, Vec<u32>)>, close: &str) {
        let all = open.iter().flat_map(|(_, numbers)| numbers.iter().copied());
        let all: BTreeSet<u32> = all.collect();
        let close = vec![(close.to_owned(), all.into_iter().collect())];
        self.switches += 1;
        let switch = self.switches;
        self.insertions.push(Insertion { at: range.start, order: (true, switch), switch, parts: open });
        self.insertions.push(Insertion { at: range.end, order: (false, -switch), switch, parts: close });
    }

    fn insert(&mut self, at: usize, parts: Vec<(String, Vec<u32>)>) {
        self.switches += 1;
        let switch = self.switches;
        self.insertions.push(Insertion { at, order: (true, switch), switch, parts });
    }

    fn written(mut self) -> Switched {
        self.insertions.sort_by_key(|insertion| (insertion.at, insertion.order));
        let mut switched = Switched::default();
        let mut regions: BTreeMap<i64, (Range<usize>, BTreeSet<u32>)> = BTreeMap::new();
        let mut done = 0;
        for insertion in &self.insertions {
            switched.text.push_str(self.slice(done..insertion.at));
            done = insertion.at;
            let start = switched.text.len();
            let region = regions.entry(insertion.switch).or_insert((start..start, BTreeSet::new()));
            for (part, numbers) in &insertion.parts {
                let from = switched.text.len();
                switched.text.push_str(part);
                let piece = from..switched.text.len();
                switched.pieces.extend(numbers.iter().map(|number| (piece.clone(), *number)));
                switched.put_in.extend(numbers);
                region.1.extend(numbers);
            }
            region.0.end = switched.text.len();
        }
        switched.text.push_str(self.slice(done..self.text.len()));
        switched.regions = regions.into_values().collect();
        switched
    }

    fn function(&mut self, signature: &Signature, block: &Block) {
        if signature.constness.is_some() {
            return;
        }
        if let Some(first) = block.stmts.first()
            && !returns_impl(&signature.output)
        {
            let at = first.span().byte_range().start;
            let values = self.wanted("FnValue", at).into_iter().filter_map(|mutant| {
                let value = flat(mutant.replacement)?;
                let text = format!("if {} {{ return {value}; }} ", is(mutant.number));
                Some((text, vec![mutant.number]))
            });
            let values: Vec<_> = values.collect();
            if !values.is_empty() {
                self.insert(at, values);
            }
        }
        visit::visit_block(self, block);
    }

    /// What is in an expression that a `let` hangs on: `&&` and `||` outside of parentheses stay as they are.
    fn beside_a_let(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.beside_a_let(&binary.left);
                self.beside_a_let(&binary.right);
            }
            other => self.visit_expr(other),
        }
    }

    /// What is between the operators of this chain.
    fn operands(&mut self, binary: &ExprBinary) {
        for side in [&*binary.left, &*binary.right] {
            match side {
                Expr::Binary(inner) => self.operands(inner),
                other => self.visit_expr(other),
            }
        }
    }

    /// A chain in which this operator is another one, on one line; none where that is no expression.
    fn changed(&self, chain: &Range<usize>, operator: &Range<usize>, replacement: &str) -> Option<String> {
        let (before, behind) = (self.slice(chain.start..operator.start), self.slice(operator.end..chain.end));
        let changed = flat(&format!("{before}{replacement}{behind}"))?;
        syn::parse_str::<Expr>(&changed).is_ok().then_some(changed)
    }

    /// Puts one of these texts in the place of an expression, each for a mutant.
    fn instead(&mut self, range: &Range<usize>, changes: Vec<(u32, String)>) {
        let numbers: Vec<u32> = changes.iter().map(|(number, _)| *number).collect();
        let mut open: Vec<(String, Vec<u32>)> = changes
            .into_iter()
            .map(|(number, text)| (format!("if {} {} else ", is(number), block(&text)), vec![number]))
            .collect();
        open.insert(0, ("(".to_owned(), numbers.clone()));
        let (begin, end) =
            if begins_a_block(self.slice(range.clone())) { ("{ (", ") })") } else { ("{ ", " })") };
        open.push((begin.to_owned(), numbers));
        self.surround(range, open, end);
    }

    fn guard(&mut self, guard: &Expr) {
        if has_let(guard) {
            return self.beside_a_let(guard);
        }
        let range = guard.span().byte_range();
        let (mut always, mut never) = (Vec::new(), Vec::new());
        for mutant in self.wanted("MatchArmGuard", range.start) {
            match mutant.replacement {
                "true" => always.push((format!("{} || ", is(mutant.number)), vec![mutant.number])),
                "false" => never.push((format!("!{} && ", is(mutant.number)), vec![mutant.number])),
                _ => {}
            }
        }
        always.append(&mut never);
        if !always.is_empty() {
            let numbers = always.iter().flat_map(|(_, numbers)| numbers.clone()).collect();
            always.push(("(".to_owned(), numbers));
            self.surround(&range, always, ")");
        }
        self.visit_expr(guard);
    }
}

impl<'ast> Visit<'ast> for Switcher<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_expr_binary(&mut self, binary: &'ast ExprBinary) {
        if has_let(&binary.left) || has_let(&binary.right) {
            self.beside_a_let(&binary.left);
            self.beside_a_let(&binary.right);
            return;
        }
        let chain = binary.span().byte_range();
        let mut changes = Vec::new();
        // An attribute of a statement is one of its leftmost operand, and would be written twice.
        if !self.slice(chain.clone()).starts_with('#') {
            for operator in operators(binary) {
                for mutant in self.wanted("BinaryOperator", operator.start) {
                    let changed = self.changed(&chain, &operator, mutant.replacement);
                    changes.extend(changed.map(|text| (mutant.number, text)));
                }
            }
        }
        if !changes.is_empty() {
            self.instead(&chain, changes);
        }
        self.operands(binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let (range, operator) = (unary.span().byte_range(), unary.op.span().byte_range());
        let mutant = self.wanted("UnaryOperator", operator.start).into_iter().next();
        let operand = flat(self.slice(operator.end..range.end).trim_start());
        if let (Some(mutant), Some(operand)) = (mutant, operand)
            && range.start == operator.start
        {
            self.instead(&range, vec![(mutant.number, operand)]);
        }
        self.visit_expr(&unary.expr);
    }

    fn visit_expr_match(&mut self, matched: &'ast syn::ExprMatch) {
        self.visit_expr(&matched.expr);
        let is_for_all = |arm: &syn::Arm| matches!(arm.pat, Pat::Wild(_)) && arm.guard.is_none();
        let last = matched.arms.iter().rposition(is_for_all).unwrap_or_default();
        for (index, arm) in matched.arms.iter().enumerate() {
            if let Some((_, guard)) = &arm.guard {
                self.guard(guard);
            } else if index < last {
                let wanted = self.wanted("MatchArm", arm.span().byte_range().start);
                if let Some(mutant) = wanted.first() {
                    let guard = format!(" if !{}", is(mutant.number));
                    self.insert(arm.pat.span().byte_range().end, vec![(guard, vec![mutant.number])]);
                }
            }
            self.visit_expr(&arm.body);
        }
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    // What has to be known when it is compiled asks no switch.
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn is(number: u32) -> String {
    format!("crate::mutant_switch::is({number})")
}

/// A block of this expression.
fn block(text: &str) -> String {
    if begins_a_block(text) { format!("{{ ({text}) }}") } else { format!("{{ {text} }}") }
}

/// Whether its first operand would be a statement of its own where a statement may stand.
fn begins_a_block(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
    text.starts_with(['{', '\''])
        || ["if", "match", "unsafe", "loop", "while", "for", "async", "const"].contains(&word)
}

/// The text on one line; none where a literal has more of them.
fn flat(text: &str) -> Option<String> {
    if !text.contains('\n') && !text.contains("//") {
        return Some(text.to_owned());
    }
    let flat = text.parse::<TokenStream>().ok()?.to_string();
    (!flat.contains('\n')).then_some(flat)
}

/// Whether a `let` hangs on it.
fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The operators of a chain, from left to right.
fn operators(binary: &ExprBinary) -> Vec<Range<usize>> {
    let side = |side: &Expr| if let Expr::Binary(inner) = side { operators(inner) } else { Vec::new() };
    let mut all = side(&binary.left);
    all.push(binary.op.span().byte_range());
    all.extend(side(&binary.right));
    all
}

fn returns_impl(output: &ReturnType) -> bool {
    struct Found(bool);
    impl<'ast> Visit<'ast> for Found {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
    }
    let mut found = Found(false);
    found.visit_return_type(output);
    found.0
}

#[cfg(test)]
mod tests;
