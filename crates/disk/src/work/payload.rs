//! Events that say what they are, so that whoever reads them can tell whether they are what was written.

use bytes::Bytes;
use capataz_store::BlobHash;

/// The most bytes that follow the heading.
const FILLING: usize = 6_000;

/// What the events of an append say of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub run: u64,
    pub first_seq: u64,
    /// The appends of one commit have its number, and their own one of so many.
    pub batch: u64,
    pub index: u64,
    pub of: u64,
    /// The blobs that the append names.
    pub blobs: Vec<BlobHash>,
}

impl Payload {
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let Self { run, first_seq, batch, index, of, blobs } = self;
        let names: Vec<String> = blobs.iter().map(BlobHash::to_string).collect();
        let heading = format!("{run} {first_seq} {batch} {index} {of} {}\n", names.join(","));
        let mut chance = fastrand::Rng::with_seed(run ^ first_seq << 24 ^ batch << 40 ^ index << 56);
        let mut content = heading.into_bytes();
        let filling = chance.usize(..FILLING);
        content.extend(std::iter::repeat_with(|| chance.u8(..)).take(filling));
        Bytes::from(content)
    }

    /// Reads what was encoded; `None` where it was not, or is not whole.
    #[must_use]
    pub fn parse(content: &Bytes) -> Option<Self> {
        let end = content.iter().position(|byte| *byte == b'\n')?;
        let heading = std::str::from_utf8(content.get(..end)?).ok()?;
        let mut words = heading.split(' ');
        let mut number = || words.next()?.parse().ok();
        let (run, first_seq, batch) = (number()?, number()?, number()?);
        let (index, of) = (number()?, number()?);
        let names = words.next()?.split(',').filter(|name| !name.is_empty());
        let blobs = names.map(|name| name.parse().ok()).collect::<Option<_>>()?;
        let read = Self { run, first_seq, batch, index, of, blobs };
        (read.encode() == *content).then_some(read)
    }
}
