//! Rules for blobs: contents by hash.

use super::*;
use crate::port::{BlobHash, Millis};

pub fn a_blob_is_read_in_parts<S: Subject>() {
    let (subject, store, writer) = claimed::<S>();
    let content: Vec<u8> = (0..100_000_u32).flat_map(u32::to_le_bytes).collect();
    let blob = store.put_blob(&content, Millis(1)).unwrap();
    assert_eq!(blob, BlobHash::of(&content));
    assert_eq!(store.put_blob(&content, Millis(2)).unwrap(), blob);
    let empty = store.put_blob(b"", Millis(1)).unwrap();
    drop((store, writer));
    let subject = subject.reopened();
    let store = subject.store();
    assert_eq!(store.blob_size(blob).unwrap(), Some(400_000));
    assert_eq!(store.blob_size(empty).unwrap(), Some(0));
    let part = |offset, length| store.read_blob(blob, offset, length).unwrap().unwrap();
    assert_eq!(part(0, usize::MAX), content);
    assert_eq!(part(10, 5), content[10..15]);
    assert_eq!(part(399_998, 100), content[399_998..]);
    assert_eq!(part(400_000, 100), b"".as_slice());
    assert_eq!(part(u64::MAX, 100), b"".as_slice());
    assert_eq!(part(5, 0), b"".as_slice());
    assert_eq!(store.read_blob(empty, 0, 10).unwrap().unwrap(), b"".as_slice());
}
