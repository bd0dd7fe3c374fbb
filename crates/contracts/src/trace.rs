//! Trace context: which trace a run belongs to, and what its spans are called (W3C Trace Context, level 1).
//!
//! Ids are computed and never drawn: the trace of a run is that of whoever started it, else the run's own id, and a span is
//! known by its run and the event that began it; that of a lease by its fencing token, which differs from that of any other
//! lease, in copies of the run too. So whoever computes them, as often as they like, before or after a
//! restart, calls the same things by the same names.

use std::fmt;

/// The event number of a span that is not in the run's own log: what the run's parent waits for.
pub const AWAITED: u64 = 0;
/// The event number of a run's first span.
pub const ROOT: u64 = 1;

/// Bytes of a `traceparent` of version 00.
const LENGTH: usize = 55;
/// The span's trace is recorded.
const SAMPLED: u8 = 1;

/// A place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceContext {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    /// Whoever began the trace records it, so that its parts are worth recording too.
    pub sampled: bool,
}

impl TraceContext {
    /// Reads a `traceparent`: of version 00 exactly, of a later one what it has in common with that. `None` for anything
    /// else, which means that there is no parent (W3C Trace Context, section 3.2.2.3).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.as_bytes().split_at_checked(LENGTH)?;
        let mut parts = head.split(|byte| *byte == b'-');
        let [version] = hex(parts.next()?)?;
        let (trace_id, span_id, [flags]) = (hex(parts.next()?)?, hex(parts.next()?)?, hex(parts.next()?)?);
        let is_whole = match version {
            0 => rest.is_empty(),
            u8::MAX => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let is_known = trace_id != [0; 16] && span_id != [0; 8];
        let context = Self { trace_id, span_id, sampled: flags & SAMPLED != 0 };
        (is_whole && is_known && parts.next().is_none()).then_some(context)
    }

    /// The context of a run, whose id has these bytes: that of its first span, in the trace of whoever started it, else in
    /// one of its own.
    #[must_use]
    pub fn of_run(run: [u8; 16], parent: Option<Self>) -> Self {
        let (trace_id, sampled) = parent.map_or((run, true), |parent| (parent.trace_id, parent.sampled));
        Self { trace_id, span_id: span_id(run, ROOT), sampled }
    }

    /// The span of the same trace that an event of this run begins, by its number, or a lease, by its token.
    #[must_use]
    pub fn at(self, run: [u8; 16], part: u64) -> Self {
        Self { span_id: span_id(run, part), ..self }
    }
}

impl fmt::Display for TraceContext {
    /// As a `traceparent` of version 00.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("00-")?;
        self.trace_id.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
        formatter.write_str("-")?;
        self.span_id.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))?;
        write!(formatter, "-{:02x}", u8::from(self.sampled))
    }
}

/// What the span is called that an event of this run begins, by its number, or a lease, by its token. No two of one run share
/// an id.
#[must_use]
pub fn span_id(run: [u8; 16], part: u64) -> [u8; 8] {
    let half = |shift: u32| u64::try_from(u128::from_be_bytes(run) >> shift & u128::from(u64::MAX));
    let (high, low) = (half(64).unwrap_or_default(), half(0).unwrap_or_default());
    // Each step is a bijection, so that different parts of a run stay different.
    let id = mixed(mixed(mixed(high) ^ low).wrapping_add(part));
    // A span has no id of zeros. Of one part of 2^64 this makes the id of another one.
    id.max(1).to_be_bytes()
}

/// The last step of SplitMix64: a bijection whose every bit depends on every bit.
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Lower-case hexadecimal of exactly so many bytes.
fn hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, odd) = text.as_chunks::<2>();
    let bytes: Vec<u8> =
        pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect::<Option<_>>()?;
    if odd.is_empty() { bytes.try_into().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The example of W3C Trace Context, section 3.2.
    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_standard_is_read_and_written() {
        let context = TraceContext::parse(EXAMPLE).unwrap();
        assert_eq!(context.trace_id[..4], [0x4b, 0xf9, 0x2f, 0x35]);
        assert_eq!(context.span_id, [0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]);
        assert!(context.sampled);
        assert_eq!(context.to_string(), EXAMPLE);
        let quiet = TraceContext::parse(&EXAMPLE.replace("-01", "-00")).unwrap();
        assert!(!quiet.sampled);
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = EXAMPLE.replacen("00-", "cc-", 1);
        assert_eq!(TraceContext::parse(&later), TraceContext::parse(EXAMPLE));
        assert_eq!(TraceContext::parse(&format!("{later}-what-comes")), TraceContext::parse(EXAMPLE));
        assert_eq!(TraceContext::parse(&format!("{later}.what-comes")), None);
    }

    #[test]
    fn what_is_no_traceparent_is_no_parent() {
        let wrong = [
            String::new(),
            EXAMPLE.replacen("00-", "ff-", 1),
            EXAMPLE.replacen("00-", "0-", 1),
            EXAMPLE.to_uppercase(),
            EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            EXAMPLE.replace("00f067aa0ba902b7", "0000000000000000"),
            EXAMPLE.replace('-', "_"),
            format!("{EXAMPLE}-more"),
            format!(" {EXAMPLE}"),
            EXAMPLE[..54].to_owned(),
            EXAMPLE.replace("-01", "-0g"),
            EXAMPLE.replace('f', "é"),
        ];
        for text in wrong {
            assert_eq!(TraceContext::parse(&text), None, "{text:?}");
        }
    }

    #[test]
    fn a_run_is_in_the_trace_of_whoever_started_it_else_in_its_own() {
        let run = *b"0123456789abcdef";
        let own = TraceContext::of_run(run, None);
        assert_eq!((own.trace_id, own.span_id, own.sampled), (run, span_id(run, 1), true));
        let caller = TraceContext::parse(&EXAMPLE.replace("-01", "-00")).unwrap();
        let within = TraceContext::of_run(run, Some(caller));
        assert_eq!(
            (within.trace_id, within.span_id, within.sampled),
            (caller.trace_id, span_id(run, 1), false)
        );
        assert_eq!(within.at(run, 7), TraceContext { span_id: span_id(run, 7), ..within });
    }

    #[test]
    fn ids_stay_what_they_are() {
        // They are in the stores of others: a change of these numbers tears traces apart.
        let run = 0x0192_3f4a_5b6c_7d8e_9fa0_b1c2_d3e4_f506_u128.to_be_bytes();
        let ids = [0, 1, 2, u64::MAX].map(|seq| u64::from_be_bytes(span_id(run, seq)));
        assert_eq!(
            ids,
            [0x7e9a_3bd9_60e9_08d3, 0x2b81_67d4_b619_e809, 0x42f2_6fb9_a36d_d99d, 0x92bb_6682_1314_86a1]
        );
    }

    proptest! {
        #[test]
        fn events_of_a_run_and_equal_events_of_runs_differ(run: u128, other: u128, first in 0_u64..1 << 40) {
            let ids: BTreeSet<_> = (first..first + 100).map(|seq| span_id(run.to_be_bytes(), seq)).collect();
            prop_assert_eq!(ids.len(), 100);
            let (one, two) = (span_id(run.to_be_bytes(), first), span_id(other.to_be_bytes(), first));
            prop_assert!(run == other || one != two);
        }

        #[test]
        fn whatever_is_read_is_written_as_it_was(text in "[0-9a-f-]{50,60}") {
            let read = TraceContext::parse(&text);
            if let Some(context) = read.filter(|_| text.starts_with("00-")) {
                prop_assert_eq!(&context.to_string()[..53], &text[..53]);
            }
        }
    }
}
